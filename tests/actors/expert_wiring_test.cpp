// Loads reach the manager of experts and its plans the ranks, under virtual time on null engines;
// the kind is swapped while a job runs, and no answer depends on any of it.

#include "tests/support/deterministic_system.hpp"
#include "tests/support/expert_audit.hpp"
#include "tests/support/faulty_engine.hpp"
#include "tests/support/rank_groups.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::test {
namespace {

const std::string kModel = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";

app::SystemConfig config(std::int64_t interval_ms) {
  app::SystemConfig out = null_config(1, 2, 0);
  out.experts.interval_ms = interval_ms;
  return out;
}

void push_lines(DeterministicSystem& system, int count) {
  for (int i = 0; i < count; ++i) {
    const std::vector<int> prompt(static_cast<std::size_t>(1 + i * 7 % 90), 20 + i % 50);
    system.job().push(text::Endpoint::completions,
                      fmt::format(R"({{"prompt": [{}], "max_tokens": {}, "seed": {}}})",
                                  fmt::join(prompt, ","), 1 + i % 23, i));
  }
  system.job().close();
}

std::map<std::string, std::string> answers(DeterministicSystem& system) {
  std::map<std::string, std::string> out;
  app::LineResult result;
  while (system.job().take(result)) {
    EXPECT_TRUE(result.is_success) << result.text;
    const auto line = nlohmann::json::parse(result.text);
    out[line["custom_id"]] = line["response"]["body"]["choices"].dump();
  }
  return out;
}

/// How often each policy of the kind decided.
std::map<std::string, std::int64_t> deciders(const DeterministicSystem& system) {
  std::map<std::string, std::int64_t> out;
  for (const auto& one : system.actors().stages->of("experts")->decisions()) {
    EXPECT_EQ(one.kind, "expert_placement");
    out[one.policy] += one.count;
  }
  return out;
}

std::map<std::string, std::string> calm_answers() {
  DeterministicSystem system({config(0), {}, {}, 16}, kModel);
  push_lines(system, 60);
  EXPECT_TRUE(system.run(100'000).complete);
  EXPECT_EQ(system.actors().experts->counts().reports, 0) << "nothing is counted";
  return answers(system);
}

TEST(ExpertWiring, LoadsReachTheManagerAndPlansTheRanks) {
  ExpertAudit audit;
  DeterministicSystem system({config(200), {}, audit.tap(), 16, {}, audit.wrap()}, kModel);
  push_lines(system, 60);
  ASSERT_TRUE(system.run(100'000).complete);
  system.pass(2'000'000);
  EXPECT_EQ(audit.faults(), std::vector<std::string>{});
  EXPECT_EQ(audit.steps(), audit.engine_steps()) << "the last ones come after a while";
  EXPECT_GE(audit.reports(), 10);
  const sched::ExpertCounts counts = system.actors().experts->counts();
  EXPECT_EQ(counts.reports, audit.reports());
  EXPECT_EQ(counts.bad_layers, 0);
  EXPECT_EQ(counts.stale_dropped, 0);
  EXPECT_GE(counts.plans, 1);
  EXPECT_GE(counts.asked, 3);
  EXPECT_GT(counts.predicted_permille, 500);
  EXPECT_GT(counts.realised_permille, 0);
  EXPECT_GE(audit.plans_heard(), 3) << "each rank heard the first plan";
  EXPECT_GE(audit.epochs().size(), 2U) << "steps ran before and after a plan";
  EXPECT_EQ(system.actors().counters->unexpected, 0);
  EXPECT_EQ(answers(system), calm_answers());
}

TEST(ExpertWiring, TheKindIsSwappedWhileAJobRuns) {
  DeterministicSystem system({config(100), {}, {}, 16}, kModel);
  push_lines(system, 60);
  system.pass(500'000);
  const std::int64_t before = deciders(system)["incremental"];
  EXPECT_GE(before, 1);
  sched::PolicySet set;
  set.epoch = PolicyEpoch{2};
  set.kinds["expert_placement"].policy = "window_greedy";
  const caf::actor& experts = system.actors().peers->experts;
  caf::anon_send(experts, sched::SwapPrepare{set, 10'000'000});
  system.pass(100'000);
  caf::anon_send(experts, sched::SwapCommit{PolicyEpoch{2}});
  ASSERT_TRUE(system.run(100'000).complete);
  const auto after = deciders(system);
  EXPECT_LE(after.at("incremental"), before + 1);
  EXPECT_GE(after.at("window_greedy"), 2);
  EXPECT_EQ(system.actors().experts->counts().invalid_decisions, 0);
  EXPECT_EQ(answers(system), calm_answers());
}

TEST(ExpertWiring, TheNextLifeOfARankHearsThePlanAndCountsAnew) {
  ExpertAudit audit;
  const auto seen = std::make_shared<int>(0);
  const app::EngineWrap counted = audit.wrap();
  const app::EngineWrap wrap = [=](const std::string& rank, RankRef life,
                                   std::shared_ptr<engine::Engine> engine) {
    auto inner = counted(rank, life, std::move(engine));
    if (rank != "decode-0" || raw(life.incarnation) > 1) return inner;
    return std::shared_ptr<engine::Engine>(std::make_shared<FaultyEngine>(
        std::move(inner), [=](EngineCall call, const engine::StepPlan*) {
          if (call == EngineCall::step && ++*seen == 60) throw std::runtime_error("no current");
        }));
  };
  DeterministicSystem system({config(200), {}, audit.tap(), 16, {}, wrap}, kModel);
  push_lines(system, 60);
  ASSERT_TRUE(system.run(100'000).complete);
  system.pass(2'000'000);
  EXPECT_EQ(system.actors().supervised->restarts, 1);
  EXPECT_EQ(audit.faults(), std::vector<std::string>{});
  EXPECT_EQ(system.actors().experts->counts().stale_dropped, 0);
  EXPECT_EQ(answers(system), calm_answers());
}

TEST(ExpertWiring, TheSameJobGivesTheSamePlans) {
  const auto plans = [] {
    std::string log;
    const actors::StageTap tap = [&](const std::string& stage, const sched::Event& event,
                                     std::int64_t now_us) {
      const auto* plan = std::get_if<sched::ExpertPlan>(&event);
      if (plan == nullptr) return;
      log += fmt::format("{} {} {}", stage, raw(plan->epoch), now_us);
      for (const auto& map : plan->maps)
        log += fmt::format(" {}", fmt::join(map, ","));
      log += "\n";
    };
    DeterministicSystem system({config(200), {}, tap, 16}, kModel);
    push_lines(system, 60);
    EXPECT_TRUE(system.run(100'000).complete);
    return log;
  };
  const std::string first = plans();
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(first, plans());
}

} // namespace
} // namespace troupe::test
