#include "actors/app/bench_plans.hpp"

#include "schedulers/core/check.hpp"
#include "schedulers/core/rng.hpp"
#include "schedulers/policies/draft_length/by_load.hpp"
#include "schedulers/policies/expert_placement/eplb.hpp"
#include "schedulers/policies/expert_placement/incremental.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

namespace troupe::app {

namespace {

// -- draft lengths
// ---------------------------------------------------------------------------------

constexpr std::size_t kRows = 256;
constexpr std::size_t kDrafts = 5;
constexpr std::int64_t kDraftCalls = 200;
constexpr double kDraftGoalUs = 20;

/// Survivals of all rows, now and two steps ago.
struct Drafts {
  std::vector<std::int64_t> now, before; ///< [rows, drafts]
  std::vector<sched::DraftRow> rows;
};

/// Each conditional acceptance is drawn from [0.3, 1).
Drafts drafts(std::uint64_t seed) {
  Rng rng(seed);
  Drafts made;
  const auto chain = [&](std::vector<std::int64_t>& out) {
    std::int64_t survival = sched::kCertain;
    for (std::size_t j = 0; j < kDrafts; ++j) {
      survival = survival * static_cast<std::int64_t>(300 + rng.below(700)) / 1000;
      out.push_back(survival);
    }
  };
  for (std::size_t row = 0; row < kRows; ++row) {
    chain(made.now);
    chain(made.before);
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    sched::DraftRow one;
    one.ref.request = RequestId{row};
    one.survivals = std::span(made.now).subspan(row * kDrafts, kDrafts);
    one.old_survivals = std::span(made.before).subspan(row * kDrafts, kDrafts);
    made.rows.push_back(one);
  }
  return made;
}

/// The curve of policies.md section 5.2: microseconds at so many tokens.
std::vector<sched::CostPoint> cost_points() {
  constexpr std::array<sched::CostPoint, 11> kMicros = {{{4, 5200},
                                                         {16, 5600},
                                                         {32, 6300},
                                                         {64, 8200},
                                                         {96, 9000},
                                                         {128, 9500},
                                                         {256, 11500},
                                                         {512, 16200},
                                                         {640, 17700},
                                                         {768, 17800},
                                                         {1024, 20600}}};
  std::vector<sched::CostPoint> points;
  for (const sched::CostPoint& one : kMicros)
    points.push_back({one.tokens, one.ps * 1'000'000});
  return points;
}

BenchFigure draft_lengths(std::int64_t rounds) {
  const Drafts drafted = drafts(5);
  const std::vector<sched::CostPoint> points = cost_points();
  const std::array<std::int64_t, 1> tokens = {kRows};
  sched::DraftQuery query{drafted.rows, tokens, {points}};
  query.costs.captured_max = 1024;
  sched::ByLoadDrafts policy({});
  for (std::int64_t size = 64; size <= 1024; size += 64) { // Steps were 3 to 7 % slower.
    policy.observe({size, 1'000'000, 1'030'000 + 40 * size});
  }
  BenchFigure figure{"draft_length", "draft lengths, 256 sequences of 5 drafts",
                     "a sort of the survivals", 0, kDraftGoalUs};
  measure(
      figure, rounds, kDraftCalls,
      [&] {
        const auto decision = policy.choose(query, {});
        return decision.value->lengths[0];
      },
      kDraftCalls,
      [&] {
        std::vector<std::int64_t> survivals = drafted.now;
        std::sort(survivals.begin(), survivals.end(), std::greater<>{});
        return survivals[0];
      });
  return figure;
}

// -- placements of experts
// -------------------------------------------------------------------------

constexpr std::size_t kLayers = 40;
constexpr sched::ExpertTopology kTopology{384, 448, 64, 1, 1};
constexpr double kFullGoalUs = 20'000;
constexpr double kIncrementalGoalUs = 5'000;
/// Section 4.4: loads drift with this correlation from report to report.
constexpr double kCorrelation = 0.99;
constexpr double kSigma = 0.8;

using Loads = std::vector<std::vector<std::int64_t>>; ///< [layers][experts]

/// Log-normal loads whose logarithms drift.
class DriftingLoads {
public:
  explicit DriftingLoads(std::uint64_t seed) : rng_(seed), logs_(kLayers) {
    for (auto& layer : logs_) {
      for (std::int64_t e = 0; e < kTopology.experts; ++e)
        layer.push_back(kSigma * normal());
    }
  }

  void drift() {
    const double rest = kSigma * std::sqrt(1 - kCorrelation * kCorrelation);
    for (auto& layer : logs_) {
      for (double& log : layer)
        log = kCorrelation * log + rest * normal();
    }
  }

  Loads loads() const {
    Loads out;
    for (const auto& layer : logs_) {
      auto& row = out.emplace_back();
      for (const double log : layer)
        row.push_back(static_cast<std::int64_t>(10'000 * std::exp(log)));
    }
    return out;
  }

private:
  /// The sum of twelve uniform draws, less its mean.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i)
      sum += static_cast<double>(rng_.below(1 << 20)) / (1 << 20);
    return sum;
  }

  Rng rng_;
  std::vector<std::vector<double>> logs_;
};

/// A question about all layers; it reads `loads` and `maps` where they stand.
struct Placement {
  const Loads& loads;
  std::vector<std::vector<std::int32_t>> maps = {}; ///< [layers][slots], or empty.
  std::vector<sched::ExpertLayerView> views = {};

  sched::ExpertQuery query() {
    views.clear();
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      views.push_back({loads[layer], {}, {}});
      if (!maps.empty()) views.back().current = maps[layer];
    }
    return {kTopology, views, 65'536, {}};
  }
};

BenchCall planned(sched::ExpertPlacement& policy, Placement& placement) {
  return [&] {
    const auto decision = policy.plan(placement.query(), {});
    TROUPE_CHECK(decision.value, "the topology is possible");
    return decision.value->moves;
  };
}

void placements(std::int64_t rounds, std::vector<BenchFigure>& out) {
  DriftingLoads drifting(7);
  const Loads first = drifting.loads();
  drifting.drift();
  const Loads later = drifting.loads();
  const BenchCall sort = [&] {
    std::int64_t sum = 0;
    for (const auto& layer : later) {
      std::vector<std::int64_t> sorted = layer;
      std::sort(sorted.begin(), sorted.end(), std::greater<>{});
      sum += sorted[0];
    }
    return sum;
  };
  const auto add = [&](const char* key, const char* what, double goal_us,
                       sched::ExpertPlacement& policy, Placement& placement) {
    BenchFigure figure{key, what, "a sort of all loads", 0, goal_us};
    measure(figure, rounds, 2, planned(policy, placement), 8, sort);
    out.push_back(figure);
  };
  sched::EplbPlacement eplb;
  sched::IncrementalPlacement incremental({});
  Placement fresh{first};
  add("eplb", "EPLB, 40 layers of 384 experts on 64 GPUs", kFullGoalUs, eplb, fresh);
  add("incremental_first", "the first incremental plan of the same", kFullGoalUs, incremental,
      fresh);
  Placement next{later};
  const auto placed = incremental.plan(fresh.query(), {});
  for (const sched::ExpertLayerPlan& layer : placed.value->layers)
    next.maps.push_back(layer.slots);
  add("incremental", "its plan after one more report", kIncrementalGoalUs, incremental, next);
}

} // namespace

std::vector<BenchFigure> bench_plans(std::int64_t rounds) {
  std::vector<BenchFigure> out{draft_lengths(rounds)};
  placements(rounds, out);
  return out;
}

} // namespace troupe::app
