// Expert placement against bounds: optima by enumeration, the shapes of a large model, the noise of
// single steps (policies.md sections 4.1 to 4.3 and 4.5).

#include "schedulers/model/expert_map.hpp"
#include "schedulers/policies/expert_placement/eplb.hpp"
#include "schedulers/policies/expert_placement/eplb_refined.hpp"
#include "tests/support/draws.hpp"
#include "tests/support/expert_cases.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace troupe::sched {
namespace {

using testing::Draws;
using testing::kAdversarial;
using testing::kExample0;
using testing::kExample1;
using testing::Loads;
using testing::Map;

/// Highest load in units of the loads.
double highest(const ExpertTopology& topology, const Map& slots, const Loads& loads) {
  const FineLoads fine(loads);
  const auto sums = gpu_loads(topology, slots, fine);
  return static_cast<double>(*std::max_element(sums.begin(), sums.end())) /
         static_cast<double>(fine.unit());
}

/// What no placement with equal shares and at most one copy of an expert a GPU comes below: the
/// mean, and the hottest expert over as many copies as it could have.
double lower_bound(const ExpertTopology& topology, const Loads& loads) {
  const auto sum =
      static_cast<double>(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}));
  const auto hottest = static_cast<double>(*std::max_element(loads.begin(), loads.end()));
  const auto copies =
      static_cast<double>(std::min(topology.gpus, 1 + topology.slots - topology.experts));
  return std::max(sum / static_cast<double>(topology.gpus), hottest / copies);
}

/// Highest load of these copies where every GPU has two slots: the heaviest share with the
/// lightest, the next with the next, which is best for pairs.
double best_pairs(const FineLoads& fine, const std::vector<std::int64_t>& copies) {
  std::vector<std::int64_t> shares;
  for (std::size_t e = 0; e < copies.size(); ++e) {
    const std::int64_t share = fine.share(static_cast<std::int64_t>(e), copies[e]);
    shares.insert(shares.end(), static_cast<std::size_t>(copies[e]), share);
  }
  std::sort(shares.begin(), shares.end());
  std::int64_t top = 0;
  for (std::size_t i = 0; i < shares.size() / 2; ++i)
    top = std::max(top, shares[i] + shares[shares.size() - 1 - i]);
  return static_cast<double>(top) / static_cast<double>(fine.unit());
}

/// The lowest of that over all ways to spread `left` more copies over the experts from `expert` on.
double best_of_all(const FineLoads& fine, std::vector<std::int64_t>& copies, std::size_t expert,
                   std::int64_t left) {
  if (expert + 1 == copies.size()) {
    copies[expert] = 1 + left;
    return best_pairs(fine, copies);
  }
  double best = 1e30;
  for (std::int64_t more = 0; more <= left; ++more) {
    copies[expert] = 1 + more;
    best = std::min(best, best_of_all(fine, copies, expert + 1, left - more));
  }
  return best;
}

double optimum(const Loads& loads, std::int64_t slots) {
  std::vector<std::int64_t> copies(loads.size(), 1);
  const auto spare = slots - static_cast<std::int64_t>(loads.size());
  return best_of_all(FineLoads(loads), copies, 0, spare);
}

TEST(ExpertBounds, OptimaOfThePublishedExampleByEnumeration) {
  const ExpertTopology flat{12, 16, 8, 1, 1};
  const ExpertTopology nodes{12, 16, 8, 4, 2};
  const double first = optimum(kExample0, 16);
  const double second = optimum(kExample1, 16);
  EXPECT_NEAR(first, 136, 1e-9);
  EXPECT_NEAR(second, 172, 1e-9);
  EXPECT_NEAR(best_pairs(FineLoads(kExample0), {1, 1, 1, 1, 1, 2, 1, 1, 1, 2, 2, 2}), 136, 1e-9);
  // Ours reaches both, with other counts. The published algorithm lies 1.8 and 0 % above without
  // groups, 14.7 and 4.4 % with them.
  const auto above = [](const ExpertTopology& topology, const Loads& loads, double best) {
    return 100 * (highest(topology, eplb_layer(topology, loads), loads) / best - 1);
  };
  EXPECT_NEAR(highest(flat, refined_layer(flat, kExample0, {}), kExample0), first, 1e-9);
  EXPECT_NEAR(highest(flat, refined_layer(flat, kExample1, {}), kExample1), second, 1e-9);
  EXPECT_NEAR(above(flat, kExample0, first), 1.8, 0.05);
  EXPECT_NEAR(above(flat, kExample1, second), 0, 1e-9);
  EXPECT_NEAR(above(nodes, kExample0, first), 14.7, 0.05);
  EXPECT_NEAR(above(nodes, kExample1, second), 4.4, 0.05);
}

TEST(ExpertBounds, OptimumOfTheAdversarialCaseByEnumeration) {
  const ExpertTopology topology{8, 16, 8, 1, 1};
  const double best = optimum(kAdversarial, 16);
  EXPECT_NEAR(best, 196.67, 0.005);
  EXPECT_NEAR(best_pairs(FineLoads(kAdversarial), {4, 3, 1, 3, 1, 1, 1, 2}), best, 1e-9);
  EXPECT_NEAR(highest(topology, refined_layer(topology, kAdversarial, {}), kAdversarial), best,
              1e-9);
  EXPECT_DOUBLE_EQ(lower_bound(topology, kAdversarial), 181.25);
}

Loads lognormal_loads(std::uint64_t seed, std::int64_t experts, double sigma) {
  Draws draws(seed, 9);
  Loads loads;
  for (std::int64_t e = 0; e < experts; ++e)
    loads.push_back(static_cast<std::int64_t>(1e6 * std::exp(sigma * draws.normal())));
  return loads;
}

/// Load of rank i falls as i^-exponent.
Loads zipf_loads(std::int64_t experts, double exponent) {
  Loads loads;
  for (std::int64_t e = 1; e <= experts; ++e)
    loads.push_back(static_cast<std::int64_t>(1e8 * std::pow(static_cast<double>(e), -exponent)));
  return loads;
}

struct Ratios {
  double published = 0, refined = 0;
};

/// Highest load over the bound; of the refined placement never above the published one.
Ratios ratios(const ExpertTopology& topology, const Loads& loads) {
  const double bound = lower_bound(topology, loads);
  const Map ours = refined_layer(topology, loads, {});
  EXPECT_FALSE(has_twins(topology, ours));
  const Ratios made{highest(topology, eplb_layer(topology, loads), loads) / bound,
                    highest(topology, ours, loads) / bound};
  EXPECT_LE(made.refined, made.published + 1e-12);
  return made;
}

// Bar of section 10: within 0.1 % of the bound at 384 experts, 448 slots, 64 GPUs.
TEST(ExpertBounds, LargeShapesWithinAThousandthOfTheBound) {
  std::printf("seeds 1 to 5\n");
  const ExpertTopology large{384, 448, 64, 1, 1};
  const auto judge = [&](const char* what, const Loads& loads) {
    const Ratios made = ratios(large, loads);
    std::printf("%-16s published %.4f, refined %.4f of the bound\n", what, made.published,
                made.refined);
    EXPECT_LE(made.refined, 1.001) << what;
  };
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    judge("log-normal 0.5", lognormal_loads(seed, 384, 0.5));
    judge("log-normal 1.0", lognormal_loads(seed, 384, 1.0));
  }
  judge("zipf 0.8", zipf_loads(384, 0.8));
}

// Without spare slots, and with twice as many, the improved placement is no worse either.
TEST(ExpertBounds, NoWorseWithoutOrWithMoreSpareSlots) {
  std::printf("seeds 6 to 8\n");
  for (const std::int64_t slots : {384, 512}) {
    const ExpertTopology topology{384, slots, 64, 1, 1};
    for (std::uint64_t seed = 6; seed <= 8; ++seed) {
      ratios(topology, lognormal_loads(seed, 384, 0.5));
      ratios(topology, lognormal_loads(seed, 384, 1.0));
    }
    ratios(topology, zipf_loads(384, 0.8));
  }
}

/// Poisson numbers by their distribution function.
class Poisson {
public:
  explicit Poisson(double mean) {
    const double spread = 12 * std::sqrt(mean);
    first_ = static_cast<std::int64_t>(std::max(0.0, mean - spread));
    double sum = 0;
    for (auto k = static_cast<double>(first_); k <= mean + spread; ++k) {
      sum += std::exp(k * std::log(mean) - mean - std::lgamma(k + 1));
      below_.push_back(sum);
    }
  }
  std::int64_t draw(Draws& draws) const {
    const auto at = std::upper_bound(below_.begin(), below_.end(), draws.uniform());
    return first_ + (at - below_.begin());
  }

private:
  std::int64_t first_ = 0;
  std::vector<double> below_;
};

// Section 4.2: even with perfect means a step of 360 tokens a GPU is out of balance by 12.6 %.
TEST(ExpertBounds, TheNoiseOfASingleStep) {
  std::printf("seed 1\n");
  struct Floor {
    double tokens, imbalance;
  };
  for (const Floor& floor : {Floor{360, 1.1256}, Floor{1'620, 1.059}, Floor{9'216, 1.024}}) {
    Draws draws(1, 10);
    const Poisson poisson(floor.tokens);
    constexpr int kSteps = 20'000;
    double sum = 0;
    for (int step = 0; step < kSteps; ++step) {
      std::vector<std::int64_t> loads;
      for (int gpu = 0; gpu < 64; ++gpu)
        loads.push_back(poisson.draw(draws));
      sum += static_cast<double>(imbalance_millionths(loads)) / 1e6;
    }
    std::printf("%.0f tokens a GPU: %.4f (%.4f)\n", floor.tokens, sum / kSteps, floor.imbalance);
    EXPECT_NEAR(sum / kSteps, floor.imbalance, 0.001);
  }
}

// Section 4.5: a spare slot in 40 layers takes the room of 845 thousand tokens; a layer's seven
// slots, twice while they change, take 132 MB more.
TEST(ExpertBounds, RoomOfSpareSlots) {
  const ExpertMoveCosts costs;
  EXPECT_EQ(costs.expert_bytes, 3LL * 5120 * 2304 * 17 / 32);
  EXPECT_NEAR(40.0 * static_cast<double>(costs.expert_bytes) / 890, 845'000, 500);
  EXPECT_NEAR(7.0 * static_cast<double>(costs.expert_bytes) / 1e6, 132, 0.5);
}

} // namespace
} // namespace troupe::sched
