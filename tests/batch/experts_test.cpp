// The manager of experts on the bundled model: what ranks report is what their engines counted, and
// greedy answers are the same whatever it plans.

#include "tests/support/eval_requests.hpp"
#include "tests/support/expert_audit.hpp"
#include "tests/support/rank_groups.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe::test {
namespace {

const std::string kModel = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";
constexpr std::int64_t kPrompts = 50;

std::vector<Request> requests() {
  return eval_requests(kModel, kPrompts, [](auto& body, auto, auto) {
    body["max_tokens"] = 24;
    body["temperature"] = 0;
  });
}

app::SystemConfig config(std::int64_t interval_ms) {
  app::SystemConfig out;
  out.model.path = kModel;
  out.kv.memory_bytes = 48LL << 20;
  out.experts.interval_ms = interval_ms;
  out.experts.slots = 20; // Four experts of each layer have a second copy.
  out.ranks.clear();
  add_ranks(out, sched::Role::prefill, 1);
  add_ranks(out, sched::Role::decode, 2);
  return out;
}

std::map<std::int64_t, std::string> choices(const LiveRun& run) {
  EXPECT_TRUE(run.state.complete);
  EXPECT_EQ(run.failed, 0);
  std::map<std::int64_t, std::string> out;
  for (const auto& [number, line] : run.answers)
    out[number] = nlohmann::json::parse(line)["response"]["body"]["choices"].dump();
  return out;
}

TEST(Experts, E5_AShapeThatNoModelOfThisSizeCanHaveIsRefused) {
  app::SystemConfig asked = config(1000);
  EXPECT_TRUE(app::check_experts(asked, 16).ok());
  asked.experts.slots = 8;
  EXPECT_EQ(app::check_experts(asked, 16).error().message,
            "experts.slots: found 8 slots for 16 experts; every expert needs one: use at least 16 "
            "slots; 0 gives one for each expert");
  asked.experts.interval_ms = 0; // Then nobody looks at it.
  EXPECT_TRUE(app::check_experts(asked, 16).ok());
}

TEST(Experts, ByDefaultARankIsAGpuAndEachExpertHasASlot) {
  app::SystemConfig asked = config(1000);
  asked.experts = {};
  const sched::ExpertOptions options = app::expert_options(asked, 12, 16);
  EXPECT_EQ(options.topology.gpus, 3);
  EXPECT_EQ(options.topology.slots, 16);
  EXPECT_EQ(options.interval_us, 60'000'000);
  // More GPUs than experts: a slot on each.
  EXPECT_EQ(app::expert_options(asked, 12, 2).topology.slots, 3);
  EXPECT_TRUE(app::check_experts(asked, 2).ok());
}

TEST(Experts, E11_GreedyAnswersAreTheSameBeforeAndAfterAPlan) {
  const auto calm = choices(run_live(config(0), requests()));
  ASSERT_EQ(calm.size(), static_cast<std::size_t>(kPrompts));
  ExpertAudit audit;
  LiveOptions extra;
  extra.wrap = audit.wrap();
  extra.tap = audit.tap();
  std::shared_ptr<actors::ExpertFacts> facts;
  extra.on_system = [&](app::LocalSystem& system) { facts = system.actors().experts; };
  const auto moved = choices(run_live(config(40), requests(), extra));
  const sched::ExpertCounts counts = facts->counts();
  std::printf("%lld reports of %lld steps, %lld plans, %lld moves, predicted %lld, realised %lld\n",
              static_cast<long long>(counts.reports), static_cast<long long>(audit.steps()),
              static_cast<long long>(counts.plans), static_cast<long long>(counts.moves),
              static_cast<long long>(counts.predicted_permille),
              static_cast<long long>(counts.realised_permille));
  EXPECT_EQ(moved, calm);
  EXPECT_GE(counts.plans, 1);
  EXPECT_GE(audit.epochs().size(), 2U) << "steps ran before and after a plan";
  EXPECT_EQ(counts.bad_layers, 0);
  EXPECT_EQ(counts.invalid_decisions, 0);
}

TEST(Experts, E10_ReportsAreTheSumsOfWhatTheEnginesCounted) {
  ExpertAudit audit;
  LiveOptions extra;
  extra.wrap = audit.wrap();
  extra.tap = audit.tap();
  choices(run_live(config(80), requests(), extra));
  EXPECT_EQ(audit.faults(), std::vector<std::string>{});
  EXPECT_GE(audit.reports(), 6);
  EXPECT_GE(audit.steps(), 30);
  EXPECT_LE(audit.steps(), audit.engine_steps());
}

TEST(Experts, TheKindIsSwappedWhileABatchRuns) {
  const auto calm = choices(run_live(config(0), requests()));
  sched::PolicySet set;
  set.epoch = PolicyEpoch{2};
  set.kinds["expert_placement"].policy = "eplb";
  LiveOptions extra;
  std::shared_ptr<actors::StageTable> stages;
  std::mutex mutex; // Of `peers`. An actor that is held here would outlive its system's end.
  std::shared_ptr<actors::Peers> peers;
  extra.on_system = [&](app::LocalSystem& system) {
    const std::lock_guard lock(mutex);
    stages = system.actors().stages;
    peers = system.actors().peers;
    caf::anon_send(peers->experts, sched::SwapPrepare{set, 60'000'000});
  };
  int reports = 0;
  extra.tap = [&](const std::string& stage, const sched::Event& event, std::int64_t) {
    // Only the manager's own thread comes here with a report.
    if (stage != "experts" || !std::holds_alternative<sched::ExpertLoads>(event)) return;
    const std::lock_guard lock(mutex);
    if (++reports == 12) caf::anon_send(peers->experts, sched::SwapCommit{PolicyEpoch{2}});
  };
  const auto swapped = choices(run_live(config(30), requests(), extra));
  EXPECT_EQ(swapped, calm);
  std::map<std::string, std::int64_t> deciders;
  for (const auto& one : stages->of("experts")->decisions())
    deciders[one.policy] += one.count;
  EXPECT_GE(deciders["incremental"], 1);
  EXPECT_GE(deciders["eplb"], 1);
}

} // namespace
} // namespace troupe::test
