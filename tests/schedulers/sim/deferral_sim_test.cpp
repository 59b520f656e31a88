// Whole simulated systems whose placement policies say "not now": nobody waits for ever.

#include "tests/support/deferring_policies.hpp"
#include "tests/support/sim_builder.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

namespace troupe::sim::testing {
namespace {

using sched::Role;
using sched::testing::Deferral;

constexpr std::int64_t kHold = 3 * kSecond;

/// Six requests by one prefill and two decode ranks; policy "defers" of `kind` follows `deferral`.
SimBuilder deferring(const std::string& kind, std::shared_ptr<Deferral> deferral) {
  SimBuilder builder({{Role::prefill}, {Role::decode}, {Role::decode}});
  for (int i = 0; i < 6; ++i)
    builder.request(10 + i * 1'000, 20, 8);
  builder.options.policies.kinds[kind].policy = "defers";
  builder.options.more_policies = [deferral](sched::PolicyRegistry& registry) {
    register_deferring(registry, deferral);
  };
  return builder;
}

void all_end_well(SimBuilder& builder, const std::string& what) {
  Simulator simulator(builder.options, builder.requests);
  ASSERT_TRUE(simulator.run(60 * kSecond, 30 * kSecond)) << what << ": " << simulator.problem();
  EXPECT_EQ(simulator.problem(), "") << what;
  for (const Outcome& outcome : simulator.outcomes().all())
    EXPECT_EQ(outcome.code(), ErrorCode::ok) << what;
}

// Each request is held for three seconds after its arrival, whatever time is named.
TEST(Deferral, EveryRequestIsServedWhateverTimeIsNamed) {
  constexpr std::int64_t kEver = std::numeric_limits<std::int64_t>::max();
  for (const char* kind : {"decode_balancer", "prefill_router", "prefill_chunker"}) {
    for (const std::int64_t named : {std::int64_t{0}, kEver, -kEver, std::int64_t{1}}) {
      auto deferral = std::make_shared<Deferral>();
      deferral->yes_from_us = [](std::int64_t, std::int64_t arrival_us) {
        return arrival_us + kHold;
      };
      if (named != 0) deferral->named_us = [=](std::int64_t, std::int64_t) { return named; };
      SimBuilder builder = deferring(kind, deferral);
      all_end_well(builder, std::string(kind) + " named " + std::to_string(named));
      EXPECT_GT(deferral->asked, 6) << kind;
      EXPECT_LE(deferral->asked, 20'000) << kind;
    }
  }
}

// A policy that never says yes and names no time: the set that follows it is asked by the swap.
TEST(Deferral, ASwapFreesWhatAPolicyHeldBackForEver) {
  for (const char* kind : {"decode_balancer", "prefill_router", "prefill_chunker"}) {
    auto deferral = std::make_shared<Deferral>();
    deferral->named_us = [](std::int64_t, std::int64_t) { return 0; };
    SimBuilder builder = deferring(kind, deferral);
    builder.options.swaps.push_back({5 * kSecond, {}, "a test"});
    all_end_well(builder, kind);
  }
}

} // namespace
} // namespace troupe::sim::testing
