// Each kind behind the ABI, with the C policies of tests/support/plugins linked in; and what a call
// that is late does to the next ones.

#include "schedulers/plugin/plugin_policy.hpp"
#include "schedulers/plugin/trial.hpp"
#include "schedulers/policies/prefill_router/random.hpp"
#include "schedulers/policy/questions.hpp"
#include "tests/support/cluster_builder.hpp"

#include <gtest/gtest.h>

namespace troupe::sched {
namespace {

using testing::ClusterBuilder;
using testing::ContextBuilder;
using testing::request;

PluginTable good() {
  auto table = read_plugin(troupe_plugin_entry(TROUPE_ABI_MAJOR));
  EXPECT_TRUE(table.ok());
  return std::move(table).value();
}

std::unique_ptr<Policy> make(const std::string& kind, const std::string& name,
                             const std::string& options = "{}",
                             const RunnerMaker& runner = direct_runner) {
  static const PluginTable table = good();
  auto made = make_plugin_policy(*table.find(kind, name), nullptr, options, {}, runner);
  EXPECT_TRUE(made.ok()) << made.error().message;
  return std::move(made).value();
}

template <class Kind>
Kind& as(const std::unique_ptr<Policy>& policy) {
  return dynamic_cast<Kind&>(*policy);
}

/// A runner whose calls are late when the test says so, without a thread.
class SlowRunner final : public CallRunner {
public:
  struct Control {
    bool late = false;    ///< The next calls do not return in time.
    bool pending = false; ///< One is under way.
    SlowRunner* runner = nullptr;
    /// The late call returns.
    void finish() {
      runner->target_->run();
      pending = false;
    }
  };

  SlowRunner(std::unique_ptr<CallTarget> target, Control& control)
      : target_(std::move(target)), control_(control) {
    control.runner = this;
  }
  ~SlowRunner() override { target_->end(); }
  CallTarget& target() noexcept override { return *target_; }
  bool idle() noexcept override { return !control_.pending; }
  bool may_be_late() const noexcept override { return true; }
  CallEnd run(std::int64_t) noexcept override {
    control_.pending = control_.late;
    if (control_.late) return CallEnd::late;
    target_->run();
    return CallEnd::done;
  }

private:
  std::unique_ptr<CallTarget> target_;
  Control& control_;
};

RunnerMaker slow(SlowRunner::Control& control) {
  return [&control](std::unique_ptr<CallTarget> target) {
    return std::make_unique<SlowRunner>(std::move(target), control);
  };
}

TEST(PluginKinds, AllAnswerTheTrial) {
  for (const PluginPolicy& row : good().policies) {
    const auto policy = make(row.kind, row.name);
    const Status status = try_policy(row.kind, *policy);
    EXPECT_TRUE(status.ok()) << row.kind << " " << row.name << ": " << status.error().message;
    EXPECT_EQ(dynamic_cast<LoadedPolicy&>(*policy).counts().failed, 0);
  }
}

TEST(PluginKinds, AQueueOrdersAndLearns) {
  ContextBuilder context;
  const auto policy = make("queue", "newest");
  auto& queue = as<QueuePolicy>(policy);
  const std::vector<RequestView> waiting = {request(1, 10), request(2, 20), request(3, 30)};
  EXPECT_EQ(queue.order(waiting, context.context()).value->positions,
            (std::vector<std::uint32_t>{2, 1, 0}));
  const auto old = make("queue", "newest", R"({"alpha":1})");
  EXPECT_EQ(as<QueuePolicy>(old).order(waiting, context.context()).value->positions,
            (std::vector<std::uint32_t>{0, 1, 2}));
  // served 20 + served 30 - returned 30
  queue.observe(waiting[1], QueueEvent::served, context.context());
  queue.observe(waiting[2], QueueEvent::served, context.context());
  const std::string before = queue.export_state();
  queue.observe(waiting[2], QueueEvent::returned, context.context());
  const std::string state = queue.export_state();
  EXPECT_EQ(state.size(), 8U);
  EXPECT_EQ(state[0], 20);
  EXPECT_EQ(before[0], 50) << "what is observed between two exports counts";
  const auto next = make("queue", "newest");
  next->import_state(state);
  EXPECT_EQ(next->export_state(), state);
  next->import_state("short");
  EXPECT_EQ(next->export_state(), state);
}

TEST(PluginKinds, DrawsAreThoseOfABuiltIn) {
  std::printf("seed 3\n");
  ContextBuilder loaded;
  ContextBuilder builtin;
  loaded.rng = builtin.rng = Rng(3);
  const auto policy = make("prefill_router", "any_fit");
  RandomRouter random;
  const auto ranks = ClusterBuilder()
                         .prefill_rank(2)
                         .prefill_rank(3)
                         .draining()
                         .prefill_rank(5)
                         .prefill_rank(8)
                         .ranks();
  for (int i = 0; i < 200; ++i) {
    const PlacementQuery query{request(1, 50), {}, {}};
    const auto a = as<PrefillRouter>(policy).route(query, ranks, loaded.context());
    const auto b = random.route(query, ranks, builtin.context());
    ASSERT_EQ(a.value->rank, b.value->rank) << i;
    ASSERT_EQ(a.reason, b.reason);
  }
}

TEST(PluginKinds, AChunkersBudgetIsAskedOnceForEachModel) {
  const auto policy = make("prefill_chunker", "one");
  auto& chunker = as<PrefillChunker>(policy);
  const CostModel model = testing::h100_tp8();
  const std::int64_t expected = model.step_ps + model.marginal_ps(512, 0) / 2;
  EXPECT_EQ(chunker.step_budget_ps(model, 512), expected);
  EXPECT_EQ(chunker.step_budget_ps(model, 512), expected);
  EXPECT_NE(chunker.step_budget_ps(model, 256), expected);
  EXPECT_NE(chunker.step_budget_ps(testing::sm100_ep4(), 512), expected);
  ContextBuilder context;
  context.model = model;
  context.step_budget_ps = expected;
  const std::vector<RequestView> requests = {request(1, 4000, 100), request(2, 10)};
  const auto slices = chunker.pack({{RankId{1}, Incarnation{1}}, 512}, requests, context.context());
  ASSERT_EQ(slices.value->shares.size(), 1U);
  EXPECT_EQ(slices.value->shares[0].tokens,
            std::min<std::int64_t>(512, model.largest_chunk(expected - model.step_ps, 100)));
}

TEST(PluginKinds, TheExperimentalOnesAnswer) {
  ContextBuilder context;
  context.now_us = 500;
  const auto admission = make("admission", "shorter_than", R"({"alpha":4})");
  auto& gate = as<AdmissionPolicy>(admission);
  EXPECT_EQ(*gate.admit(request(1, 5), {.waiting = 3}, context.context()).value, Admission::admit);
  EXPECT_EQ(*gate.admit(request(1, 5), {.waiting = 4}, context.context()).value, Admission::reject);

  const auto handoff = make("handoff", "two");
  auto& pace = as<HandoffPolicy>(handoff);
  HandoffQuery query{request(1, 5), {RankId{1}, Incarnation{1}}, 0, 1, 1};
  EXPECT_TRUE(pace.plan(query, context.context()).value);
  query.transfers = 2;
  const auto waits = pace.plan(query, context.context());
  EXPECT_FALSE(waits.value);
  EXPECT_EQ(waits.reason, Reason::held_back);
  EXPECT_EQ(waits.retry_at_us, 1500);

  const auto step = make("step", "sequences_first");
  const std::vector<OfferedSlice> slices = {{{RequestId{1}, Attempt{1}}, 0, 100}};
  const std::vector<DecodeView> decodes = {{{RequestId{2}, Attempt{1}}, 7},
                                           {{RequestId{3}, Attempt{1}}, 9}};
  const auto composed = as<StepPolicy>(step).compose({slices, decodes, 50}, context.context());
  EXPECT_EQ(composed.value->decodes, (std::vector<std::uint32_t>{0, 1}));
  ASSERT_EQ(composed.value->slices.size(), 1U);
  EXPECT_EQ(composed.value->slices[0].tokens, 48);

  const auto overlap = make("overlap", "one_more");
  auto& ahead = as<OverlapPolicy>(overlap);
  OverlapView view;
  view.sequences = 2;
  view.blocks_most = 3;
  EXPECT_TRUE(ahead.plan(view, context.context()).value->plan_now);
  view.plans_held = 1;
  EXPECT_FALSE(ahead.plan(view, context.context()).value->plan_now);
  view.blocks_free = 3;
  const auto planned = ahead.plan(view, context.context());
  EXPECT_EQ(*planned.value, (OverlapPlan{true, 1, false}));
  EXPECT_EQ(planned.reason, Reason::in_order);
}

TEST(PluginKinds, ALateCallFailsTheNextOnesUntilItReturns) {
  SlowRunner::Control control;
  ContextBuilder context;
  const auto policy = make("decode_balancer", "turns", "{}", slow(control));
  auto& balancer = as<DecodeBalancer>(policy);
  const auto ranks = ClusterBuilder().decode_rank(0).decode_rank(1).decode_rank(2).ranks();
  const auto place = [&] {
    // The question dies before its late call returns.
    auto gone = std::make_unique<std::vector<RankView>>(ranks);
    return balancer.place({request(1, 10), {}, {}}, *gone, context.context());
  };
  EXPECT_EQ(place().value->rank, RankId{0});
  control.late = true;
  EXPECT_FALSE(place().value);
  EXPECT_EQ(policy->failure(), "late: decide did not return within 1000 us");
  EXPECT_FALSE(place().value);
  EXPECT_EQ(policy->failure(), "late: an earlier call has not returned yet");
  EXPECT_EQ(policy->export_state(), "");
  control.late = false;
  control.finish();
  // The late call took a turn, the refused one did not.
  EXPECT_EQ(place().value->rank, RankId{2});
  EXPECT_EQ(policy->failure(), "");
  const PluginCounts& counts = dynamic_cast<LoadedPolicy&>(*policy).counts();
  EXPECT_EQ(counts.calls, 4);
  EXPECT_EQ(counts.late, 1);
  EXPECT_EQ(counts.busy, 1);
}

TEST(PluginKinds, WhatAQueueObservesDuringALateCallIsToldAfterIt) {
  SlowRunner::Control control;
  ContextBuilder context;
  const auto policy = make("queue", "newest", "{}", slow(control));
  auto& queue = as<QueuePolicy>(policy);
  const std::vector<RequestView> waiting = {request(1, 1)};
  control.late = true;
  EXPECT_FALSE(queue.order(waiting, context.context()).value);
  for (int i = 0; i < 5000; ++i)
    queue.observe(waiting[0], QueueEvent::served, context.context());
  EXPECT_EQ(dynamic_cast<LoadedPolicy&>(*policy).counts().observations_lost, 5000 - 4096);
  control.late = false;
  control.finish();
  ASSERT_TRUE(queue.order(waiting, context.context()).value);
  const std::string state = queue.export_state();
  EXPECT_EQ(static_cast<unsigned char>(state[0]) + 256 * static_cast<unsigned char>(state[1]),
            4096);
}

TEST(PluginKinds, ABusyChunkerHasTheBudgetOfAWholeStep) {
  SlowRunner::Control control;
  const auto policy = make("prefill_chunker", "one", "{}", slow(control));
  auto& chunker = as<PrefillChunker>(policy);
  const CostModel model = testing::h100_tp8();
  control.late = true;
  EXPECT_EQ(chunker.step_budget_ps(model, 512), model.chunk_ps(512, 0));
  EXPECT_EQ(chunker.step_budget_ps(model, 512), model.chunk_ps(512, 0));
  control.late = false;
  control.finish();
  EXPECT_EQ(chunker.step_budget_ps(model, 512), model.step_ps + model.marginal_ps(512, 0) / 2);
}

} // namespace
} // namespace troupe::sched
