// The actors wired together, under virtual time and on null engines: messages reach whom they
// should, everything ends, nothing is held afterwards, and the stages alone decide the same.

#include "tests/support/deterministic_system.hpp"
#include "tests/support/faulty_engine.hpp"
#include "tests/support/rank_groups.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>

namespace troupe::test {
namespace {

const std::string kModel = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";

std::string body(int i) {
  return fmt::format(
      R"({{"prompt": [{}], "max_tokens": {}, "seed": {}}})",
      fmt::join(std::vector<int>(static_cast<std::size_t>(1 + i * 7 % 90), 20 + i % 50), ","),
      1 + i % 23, i);
}

/// The answers of a job of `count` lines by custom_id: text of the choice, and how it ended.
struct JobRun {
  actors::JobState state;
  std::map<std::string, std::string> answers;
  std::int64_t failed = 0;
  std::int64_t blocks_held = 0;
  std::int64_t slots_held = 0;
  std::int64_t messages = 0;
  std::int64_t restarts = 0;
};

/// Lives of `victim` up to `lives` throw at their `step`-th step.
app::EngineWrap failing(const std::string& victim, std::uint32_t lives, int step) {
  return [=](const std::string& rank, RankRef life,
             std::shared_ptr<engine::Engine> engine) -> std::shared_ptr<engine::Engine> {
    if (rank != victim || raw(life.incarnation) > lives) return engine;
    const auto seen = std::make_shared<int>(0);
    return std::make_shared<FaultyEngine>(std::move(engine),
                                          [=](EngineCall call, const engine::StepPlan*) {
                                            if (call == EngineCall::step && ++*seen == step)
                                              throw std::runtime_error("no current");
                                          });
  };
}

JobRun run_job(const app::SystemConfig& config, int count, const actors::StageTap& tap = {},
               const app::EngineWrap& wrap = {}) {
  DeterministicSystem system({config, {}, tap, 16, {}, wrap}, kModel);
  for (int i = 0; i < count; ++i)
    system.job().push(text::Endpoint::completions, body(i));
  system.job().close();
  JobRun run;
  run.state = system.run(100'000);
  system.pass(1'000'000); // Reports and releases that are still under way.
  app::LineResult result;
  while (system.job().take(result)) {
    const auto line = nlohmann::json::parse(result.text);
    if (!result.is_success) {
      ++run.failed;
      continue;
    }
    run.answers[line["custom_id"]] = line["response"]["body"]["choices"].dump();
  }
  for (const auto& totals : system.actors().totals) {
    run.blocks_held += totals->kv_blocks_held;
    run.slots_held += totals->slots_held;
  }
  run.messages = system.actors().counters->messages;
  run.restarts = system.actors().supervised->restarts;
  EXPECT_EQ(system.actors().counters->unexpected, 0);
  return run;
}

TEST(Wiring, AJobEndsAndNothingIsHeld) {
  const JobRun run = run_job(null_config(2, 3, 0), 60);
  EXPECT_TRUE(run.state.ended);
  EXPECT_TRUE(run.state.complete);
  EXPECT_EQ(run.answers.size(), 60U);
  EXPECT_EQ(run.failed, 0);
  EXPECT_EQ(run.blocks_held, 0);
  EXPECT_EQ(run.slots_held, 0);
}

TEST(Wiring, AnswersDoNotDependOnTheRanks) {
  const JobRun one = run_job(null_config(0, 0, 1), 40);
  const JobRun split = run_job(null_config(1, 1, 0), 40);
  const JobRun many = run_job(null_config(2, 3, 0), 40);
  ASSERT_EQ(one.answers.size(), 40U);
  EXPECT_EQ(one.answers, split.answers);
  EXPECT_EQ(one.answers, many.answers);
}

TEST(Wiring, TheSameJobGivesTheSameEvents) {
  const auto events = [] {
    std::string log;
    run_job(null_config(2, 2, 0), 20,
            [&](const std::string& stage, const sched::Event& event, std::int64_t now_us) {
              log += fmt::format("{} {} {}\n", stage, event.index(), now_us);
            });
    return log;
  };
  const std::string first = events();
  EXPECT_GT(std::count(first.begin(), first.end(), '\n'), 200);
  EXPECT_EQ(first, events());
}

TEST(Wiring, LostRanksAreReplacedAndAnswersStay) {
  const JobRun calm = run_job(null_config(1, 1, 0), 40);
  ASSERT_EQ(calm.answers.size(), 40U);
  EXPECT_EQ(calm.restarts, 0);
  for (const char* victim : {"prefill-0", "decode-0"}) {
    const JobRun run = run_job(null_config(1, 1, 0), 40, {}, failing(victim, 2, 3));
    EXPECT_EQ(run.restarts, 2) << victim;
    EXPECT_EQ(run.failed, 0) << victim;
    EXPECT_EQ(run.answers, calm.answers) << victim;
    EXPECT_EQ(run.blocks_held, 0) << victim;
    EXPECT_EQ(run.slots_held, 0) << victim;
  }
}

TEST(Wiring, ALifeThatCannotBeginIsTriedAgain) {
  const auto failing_steps = failing("decode-0", 1, 15);
  const app::EngineWrap wrap = [&](const std::string& rank, RankRef life,
                                   std::shared_ptr<engine::Engine> engine) {
    const bool opens =
        rank != "decode-0" || (raw(life.incarnation) != 2 && raw(life.incarnation) != 3);
    return opens ? failing_steps(rank, life, std::move(engine)) : nullptr;
  };
  const JobRun run = run_job(null_config(1, 1, 0), 40, {}, wrap);
  EXPECT_EQ(run.restarts, 3);
  EXPECT_EQ(run.answers.size(), 40U);
  EXPECT_EQ(run.failed, 0);
}

TEST(Wiring, ALostRankGivesTheSameEventsEachTime) {
  const auto events = [] {
    std::string log;
    run_job(
        null_config(2, 2, 0), 20,
        [&](const std::string& stage, const sched::Event& event, std::int64_t now_us) {
          log += fmt::format("{} {} {}\n", stage, event.index(), now_us);
        },
        failing("decode-1", 1, 10));
    return log;
  };
  EXPECT_EQ(events(), events());
}

TEST(Wiring, WithoutDecodeRankTheJobEndsSoonAndLeavesItsLines) {
  DeterministicSystem system({null_config(1, 1, 0), {}, {}, 16, {}, failing("decode-0", 100, 5)},
                             kModel);
  for (int i = 0; i < 100; ++i)
    system.job().push(text::Endpoint::completions, body(i));
  system.job().close();
  const actors::JobState state = system.run(60);
  EXPECT_TRUE(state.ended);
  EXPECT_FALSE(state.complete);
  EXPECT_EQ(state.code, ErrorCode::no_rank);
  EXPECT_EQ(state.failed, 0);
  EXPECT_NE(state.message.find("no decode rank is left: decode-0 was lost 4 times"),
            std::string::npos)
      << state.message;
}

TEST(Wiring, TheClockHoldsFewMessagesHoweverManyTimersWait) {
  app::SystemConfig config = null_config(1, 1, 0);
  for (app::RankGroupConfig& group : config.ranks)
    group.cost_model.null_speed = 0.0;
  DeterministicSystem system({config, {}, {}, 16}, kModel);
  for (int i = 0; i < 300; ++i)
    system.job().push(text::Endpoint::completions, body(i));
  system.job().close();
  EXPECT_TRUE(system.run(100'000).complete);
  EXPECT_LT(system.pending_delays(), 30U) << "each request sets several timers of many seconds";
}

TEST(Wiring, AnInterruptKeepsWhatDecodesAndSendsTheRestBack) {
  DeterministicSystem system({null_config(1, 1, 0), {}, {}, 16}, kModel);
  for (int i = 0; i < 200; ++i)
    system.job().push(text::Endpoint::completions, body(i));
  system.job().close();
  system.pass(3'000'000);
  system.interrupt(1);
  const actors::JobState state = system.run(100'000);
  EXPECT_TRUE(state.ended);
  EXPECT_FALSE(state.complete);
  EXPECT_EQ(state.code, ErrorCode::ok);
  EXPECT_GT(state.succeeded, 0);
  EXPECT_LT(state.succeeded, 200);
  EXPECT_EQ(state.failed, 0);
  system.pass(20'000'000);
  for (const auto& totals : system.actors().totals) {
    EXPECT_EQ(totals->kv_blocks_held, 0);
    EXPECT_EQ(totals->slots_held, 0);
  }
}

TEST(Wiring, ALineThatNeverFitsIsRefusedAndItsFollowersAreServed) {
  app::SystemConfig config = null_config(1, 1, 0);
  config.limits.sequences_max = 2;
  config.kv.memory_bytes = 16 << 10;
  DeterministicSystem system({config, {}, {}, 16}, kModel);
  const std::string long_prompt = fmt::format(R"({{"prompt": [{}], "max_tokens": 1}})",
                                              fmt::join(std::vector<int>(8000, 21), ","));
  system.job().push(text::Endpoint::completions, long_prompt);
  for (int i = 0; i < 5; ++i)
    system.job().push(text::Endpoint::completions, body(i));
  system.job().close();
  const actors::JobState state = system.run(10'000);
  EXPECT_TRUE(state.ended);
  EXPECT_EQ(state.succeeded + state.failed, 6);
  EXPECT_EQ(state.failed, 1);
}

} // namespace
} // namespace troupe::test
