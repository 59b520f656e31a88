// Public bug reports about placement, on whole simulated systems: who got what.

#include "tests/support/sim_builder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace troupe::sim::testing {
namespace {

using sched::Role;

void use_cost_model(SimOptions& options, const sched::CostModel& cost) {
  options.driver.cost_model = options.prefill.cost_model = options.decode.cost_model = cost;
  for (sched::RankOptions& rank : options.ranks)
    rank.cost_model = cost;
}

/// Ranks chosen by the decisions of a kind, in order.
std::vector<RankId> chosen(const Simulator& simulator, const std::string& kind) {
  std::vector<RankId> ranks;
  for (const TimedRecord& one : simulator.records()) {
    if (one.record.kind == kind && one.record.value > 0) ranks.push_back(one.record.rank.rank);
  }
  return ranks;
}

// Rank 1 decodes one request of 10,000 tokens, rank 2 two of 1,000: where context is what costs,
// the next one goes to rank 2, though it has more requests.
TEST(Cases, S14_TheRankWithLessContextIsNext) {
  SimBuilder builder({{Role::prefill, 4096, 16, 512},
                      {Role::decode, 4096, 16, 512},
                      {Role::decode, 4096, 16, 512}});
  sched::CostModel cost;
  cost.context_token_ps = 400'000;
  use_cost_model(builder.options, cost);
  builder.request(10, 10'000, 3'000);
  builder.request(20 * kSecond, 1'000, 3'000);
  builder.request(21 * kSecond, 1'000, 3'000);
  builder.request(22 * kSecond, 1'000, 3'000);
  Simulator simulator(builder.options, builder.requests);
  ASSERT_TRUE(simulator.run(600 * kSecond, 30 * kSecond)) << simulator.problem();
  EXPECT_EQ(chosen(simulator, "decode_balancer"),
            (std::vector<RankId>{RankId{1}, RankId{2}, RankId{2}, RankId{2}}));
}

// Like requests from many clients: no rank of a role gets more than a fair share and a tenth.
TEST(Cases, S15_WorkIsSpread) {
  std::vector<RankSpec> ranks(4, {Role::prefill, 512, 32, 128});
  ranks.resize(8, {Role::decode, 512, 32, 128});
  SimBuilder builder(ranks);
  constexpr int kRequests = 400;
  Rng rng(15);
  std::printf("seed 15\n");
  std::int64_t at_us = 10;
  for (int i = 0; i < kRequests; ++i) {
    builder.request(at_us, 40, 30);
    at_us += exponential(5'000, rng);
  }
  Simulator simulator(builder.options, builder.requests);
  ASSERT_TRUE(simulator.run(600 * kSecond, 30 * kSecond)) << simulator.problem();
  for (const char* kind : {"prefill_router", "decode_balancer"}) {
    std::map<RankId, int> count;
    for (const RankId rank : chosen(simulator, kind))
      ++count[rank];
    ASSERT_EQ(count.size(), 4U) << kind;
    for (const auto& [rank, requests] : count) {
      EXPECT_GE(requests, kRequests / 4 * 9 / 10) << kind << " rank " << raw(rank);
      EXPECT_LE(requests, kRequests / 4 * 11 / 10) << kind << " rank " << raw(rank);
    }
  }
}

} // namespace
} // namespace troupe::sim::testing
