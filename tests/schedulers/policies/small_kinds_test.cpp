// Admission, queue order, handoff and step composition.

#include "schedulers/model/queue_estimate.hpp"
#include "schedulers/policies/admission/always.hpp"
#include "schedulers/policies/admission/by_cost.hpp"
#include "schedulers/policies/handoff/paced.hpp"
#include "schedulers/policies/handoff/whole.hpp"
#include "schedulers/policies/step/decode_first.hpp"
#include "schedulers/policies/step/prefill_first.hpp"
#include "schedulers/policy/validate.hpp"
#include "tests/support/cluster_builder.hpp"

#include <gtest/gtest.h>

#include <array>

namespace troupe::sched {
namespace {

using testing::ContextBuilder;
using testing::request;

constexpr std::int64_t kMs = 1'000'000'000; // In picoseconds.

TEST(QueueEstimate, StepOverheadAndSaturation) {
  EXPECT_EQ(with_step_overhead(100, 10, 50), 120);
  EXPECT_EQ(with_step_overhead(100, 10, 0), 100);
  EXPECT_EQ(steps_ps(90, 10, 55), 90 + 2 * 10); // 45 of work a step
  EXPECT_EQ(steps_ps(91, 10, 55), 91 + 3 * 10);
  EXPECT_EQ(steps_ps(0, 10, 55), 10);
  EXPECT_EQ(steps_ps(91, 10, 5), 101);
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(with_step_overhead(kMax, kMax, 1), kMax);
  EXPECT_EQ(steps_ps(kMax, kMax - 2, kMax - 1), kMax);
  EXPECT_EQ(add_saturated(kMax, 1), kMax);
}

// Section 2.1: 60,000 tokens of which 2,400 are new; loading hides behind the queue, or it behind
// the loading.
TEST(QueueEstimate, TimeToTheFirstToken) {
  const CostModel model = testing::sm100_ep4();
  const std::int64_t load_ps = 890LL * 57'600 * 20; // 50 GB/s: 20 ps a byte.
  EXPECT_EQ(load_ps, 1'025'280'000);
  const std::int64_t own_ps = steps_ps(model.marginal_ps(2'400, 57'600), model.step_ps, 100 * kMs);
  TtftTerms terms{300'000'000, load_ps, 0, own_ps, 770'000'000};
  EXPECT_EQ(ttft_ps(terms), 300'000'000 + load_ps + own_ps + 770'000'000);
  EXPECT_NEAR(static_cast<double>(ttft_ps(terms)) / 1e9, 55, 0.2);
  terms.queue_ps = 30 * kMs;
  EXPECT_EQ(ttft_ps(terms), 300'000'000 + 30 * kMs + own_ps + 770'000'000);
  terms.queue_ps = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(ttft_ps(terms), std::numeric_limits<std::int64_t>::max());
}

TEST(AdmissionByCost, ComparesTheEstimateWithTheDeadline) {
  ContextBuilder builder;
  builder.model = {2 * kMs, kMs, 0, 0, 1, 1}; // 1 ms a token, 2 ms a step
  builder.step_budget_ps = 10 * kMs;          // 8 tokens a step
  builder.now_us = 1'000'000;
  ByCostAdmission policy({});
  RequestView view = request(1, 16);
  // Own: 16 ms of work in 2 steps = 20 ms. Queue: 30 ms. Waiting: 40 tokens on 2 ranks, with
  // overhead 20·1.2 = 24 ms. Sum 74 ms.
  const LoadView load{5, 40, 30 * kMs, 2, 0};
  view.deadline_us = builder.now_us + 74'000;
  const auto in_time = policy.admit(view, load, builder.context());
  EXPECT_EQ(in_time.value, Admission::admit);
  EXPECT_EQ(in_time.reason, Reason::meets_deadline);
  view.deadline_us = builder.now_us + 73'999;
  const auto late = policy.admit(view, load, builder.context());
  EXPECT_EQ(late.value, Admission::reject);
  EXPECT_EQ(late.reason, Reason::misses_deadline);
  ByCostAdmission patient({.margin_permille = 100});
  EXPECT_EQ(patient.admit(view, load, builder.context()).value, Admission::admit);
  view.deadline_us = 0;
  EXPECT_EQ(policy.admit(view, load, builder.context()).reason, Reason::no_target);
  view.deadline_us = 1;
  EXPECT_EQ(policy.admit(view, LoadView{}, builder.context()).value, Admission::admit)
      << "nothing is known yet";
  EXPECT_EQ(policy.admit(view, load, builder.context()).value, Admission::reject);
  AlwaysAdmission always;
  EXPECT_EQ(always.admit(view, load, builder.context()).value, Admission::admit);
}

TEST(Handoff, WholeStartsAtOnceAndPacedTakesTurns) {
  ContextBuilder builder;
  WholeHandoff whole;
  HandoffQuery query{request(1, 10), {}, 0, 50, 50};
  EXPECT_TRUE(whole.plan(query, builder.context()).value.has_value());
  PacedHandoff paced({.of_source_max = 2, .total_max = 3});
  const auto plan = [&](std::int64_t of_source, std::int64_t total) {
    query.transfers_of_source = of_source;
    query.transfers = total;
    const auto decision = paced.plan(query, builder.context());
    EXPECT_TRUE(validate(decision, query).ok());
    return decision.value.has_value();
  };
  EXPECT_TRUE(plan(0, 0));
  EXPECT_TRUE(plan(1, 2));
  EXPECT_FALSE(plan(2, 2));
  EXPECT_FALSE(plan(0, 3));
}

// Budget 6:  D D D | P P P . .     against     P P P P P | D . .
TEST(Step, WhoGoesFirstDecidesWhatIsCut) {
  ContextBuilder builder;
  const std::array<OfferedSlice, 2> slices = {{{{}, 0, 3}, {{}, 0, 2}}};
  const std::array<DecodeView, 3> decodes = {};
  const StepQuery query{slices, decodes, 6};
  DecodeFirstStep decode_first;
  const auto a = decode_first.compose(query, builder.context());
  EXPECT_EQ(a.value->decodes.size(), 3U);
  ASSERT_EQ(a.value->slices.size(), 1U);
  EXPECT_EQ(a.value->slices[0].tokens, 3);
  EXPECT_EQ(a.reason, Reason::budget_reached);
  PrefillFirstStep prefill_first;
  const auto b = prefill_first.compose(query, builder.context());
  EXPECT_EQ(b.value->slices.size(), 2U);
  EXPECT_EQ(b.value->decodes, (std::vector<std::uint32_t>{0}));
  const StepQuery wide{slices, decodes, 8};
  EXPECT_EQ(decode_first.compose(wide, builder.context()).reason, Reason::within_budget);
  EXPECT_TRUE(validate(a, query).ok());
  EXPECT_TRUE(validate(b, query).ok());
}

TEST(Step, ShrinksTheLastSlice) {
  ContextBuilder builder;
  const std::array<OfferedSlice, 2> slices = {{{{}, 0, 3}, {{}, 0, 9}}};
  DecodeFirstStep policy;
  const auto decision = policy.compose({slices, {}, 5}, builder.context());
  ASSERT_EQ(decision.value->slices.size(), 2U);
  EXPECT_EQ(decision.value->slices[1].tokens, 2);
}

} // namespace
} // namespace troupe::sched
