// Overlap of host and device: policies.md section 6.

#include "schedulers/policies/overlap/one_ahead.hpp"
#include "schedulers/policies/overlap/serial.hpp"

#include <gtest/gtest.h>

namespace troupe::sched {
namespace {

constexpr std::int64_t kMs = 1'000'000'000; // In picoseconds.

OverlapView running() {
  OverlapView view;
  view.device_ps = 10 * kMs;
  view.host_ps = 6 * kMs;
  view.plans_held = 1;
  view.sequences = 8;
  view.blocks_most = 8;
  view.blocks_free = 10;
  return view;
}

bool plans(OverlapPolicy& policy, const OverlapView& view, Reason reason) {
  const auto decision = policy.plan(view, {});
  EXPECT_TRUE(validate(decision, view).ok());
  EXPECT_EQ(decision.reason, reason);
  return decision.value->plan_now;
}

//   device   |==== n ====|==== n+1 ====|
//   host     |plan n+1|post|plan n+2|
TEST(Overlap, OneAheadHoldsOnePlanBesidesTheRunningOne) {
  OneAheadOverlap ahead({});
  SerialOverlap serial;
  OverlapView view = running();
  EXPECT_TRUE(plans(ahead, view, Reason::within_budget));
  EXPECT_FALSE(plans(serial, view, Reason::budget_reached));
  view.plans_held = 2;
  EXPECT_FALSE(plans(ahead, view, Reason::budget_reached));
  view.plans_held = 0;
  EXPECT_TRUE(plans(ahead, view, Reason::within_budget));
  EXPECT_TRUE(plans(serial, view, Reason::within_budget));
  view.sequences = 0;
  EXPECT_FALSE(plans(ahead, view, Reason::nothing_to_do));
  EXPECT_FALSE(plans(serial, view, Reason::nothing_to_do));
}

// S10: blocks that the running step gives back are on their way; nothing is planned on them and
// nothing else is given up for them.
TEST(Overlap, WaitsForBlocksThatTheRunningStepHolds) {
  OneAheadOverlap ahead({});
  OverlapView view = running();
  view.blocks_most = 12;
  view.blocks_retiring = 4;
  EXPECT_FALSE(plans(ahead, view, Reason::no_room));
  view.blocks_free = 12;
  EXPECT_TRUE(plans(ahead, view, Reason::within_budget));
  view.blocks_free = 0;
  view.plans_held = 0;
  EXPECT_TRUE(plans(ahead, view, Reason::within_budget)) << "an idle rank is never told to wait";
}

TEST(Overlap, ArrivalsArePaddedAndMasksHiddenUnderVerification) {
  OneAheadOverlap ahead({});
  OverlapView view = running();
  view.drafts = 5;
  EXPECT_EQ(ahead.plan(view, {}).value->arrival_tokens, 1);
  view.arrivals = 1;
  EXPECT_EQ(ahead.plan(view, {}).value->arrival_tokens, 6);
  EXPECT_FALSE(ahead.plan(view, {}).value->masks_under_verify);
  view.constrained = 2;
  EXPECT_TRUE(ahead.plan(view, {}).value->masks_under_verify);
}

TEST(Overlap, ShortStepsMayBeLeftSerial) {
  OneAheadOverlap picky({.device_share_min_permille = 500});
  OverlapView view = running();
  EXPECT_TRUE(plans(picky, view, Reason::within_budget));
  view.device_ps = 2 * kMs;
  EXPECT_FALSE(plans(picky, view, Reason::budget_reached));
}

TEST(Overlap, ValidateKnowsTheRules) {
  const OverlapView view = running();
  Decision<OverlapPlan> decision{OverlapPlan{true, 1, false}, Reason::within_budget};
  EXPECT_TRUE(validate(decision, view).ok());
  OverlapView full = view;
  full.blocks_free = 7;
  EXPECT_FALSE(validate(decision, full).ok());
  OverlapView idle = view;
  idle.plans_held = 0;
  decision.value->plan_now = false;
  EXPECT_FALSE(validate(decision, idle).ok());
  decision.value->arrival_tokens = 2;
  EXPECT_FALSE(validate(decision, view).ok());
  EXPECT_FALSE(validate({OverlapPlan{}, Reason::unset}, view).ok());
  EXPECT_FALSE(validate({std::nullopt, Reason::no_room}, view).ok());
}

// Section 6.1: s + p + D + q in a row; max(D, s + p + q) + gap ahead. Goals of section 6.3.
TEST(Overlap, PeriodsAndIdleShares) {
  const StepTimes times{2 * kMs, kMs, 3 * kMs, 10 * kMs, kMs / 10};
  EXPECT_EQ(step_period_ps(times, false), 16 * kMs);
  EXPECT_EQ(step_period_ps(times, true), 10 * kMs + kMs / 10);
  EXPECT_EQ(idle_millionths(times, false), 375'000);
  EXPECT_LE(idle_millionths(times, true), 20'000) << "D = 10 ms, H = 0.6 D";
  const StepTimes slow_host{8 * kMs, kMs, 3 * kMs, 10 * kMs, 0};
  EXPECT_EQ(step_period_ps(slow_host, true), 12 * kMs);
  // Masks of 30 % of the sequences that take less than the verification cost nothing.
  EXPECT_EQ(masked_step_ps(9 * kMs, 8 * kMs, kMs), 10 * kMs);
  EXPECT_EQ(masked_step_ps(9 * kMs, 9 * kMs + kMs / 2, kMs), 10 * kMs + kMs / 2);
}

} // namespace
} // namespace troupe::sched
