// What cannot be replaced: a role without rank, an actor that is no rank, a thread that hangs. The
// job ends in bounded time, says why, and what was answered is kept.

#include "actors/app/available_memory.hpp"
#include "actors/app/journal.hpp"
#include "tests/support/checkpoint_files.hpp"
#include "tests/support/rank_drill.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <set>
#include <sstream>
#include <thread>

namespace troupe::test {
namespace {

const std::string kModel = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";

app::SystemConfig config(const char* device = "null") {
  app::SystemConfig out;
  out.model.path = kModel;
  out.kv.memory_bytes = 8LL << 20;
  out.limits.heartbeat_ms = 50;
  out.limits.rank_restarts_max = 2;
  for (app::RankGroupConfig& group : out.ranks)
    group.device = device;
  return out;
}

std::string body(int i) {
  return fmt::format(R"({{"prompt":[{},21,22],"max_tokens":{},"ignore_eos":true}})", 30 + i % 100,
                     2 + i % 5);
}

std::vector<Request> requests_of(int count) {
  std::vector<Request> out;
  for (int i = 0; i < count; ++i)
    out.emplace_back(text::Endpoint::completions, body(i));
  return out;
}

/// A journalled job of `lines` lines in a folder.
class JournalledJob {
public:
  explicit JournalledJob(int lines) {
    std::string text;
    for (int i = 0; i < lines; ++i) {
      text += fmt::format(
          R"({{"custom_id":"{}","method":"POST","url":"/v1/completions","body":{}}})", i, body(i));
      text += '\n';
    }
    write_file(folder_ / "in.jsonl", text);
  }
  std::shared_ptr<app::BatchJob> open() {
    auto job = app::open_journal(app::batch_paths(folder_ / "in.jsonl", folder_ / "out.jsonl", ""),
                                 {}, {});
    if (!job.ok()) throw std::runtime_error(job.error().message);
    return std::shared_ptr<app::BatchJob>(std::move(*job));
  }
  /// Lines of the output; each custom_id must occur once.
  std::set<std::string> answered() const {
    std::set<std::string> out;
    std::istringstream in(read_file(folder_ / "out.jsonl"));
    std::string line;
    while (std::getline(in, line))
      EXPECT_TRUE(out.insert(nlohmann::json::parse(line)["custom_id"]).second) << line;
    return out;
  }

private:
  ScratchFolder folder_;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Every life of `victim` throws from its `from`-th step on.
app::EngineWrap always_failing(const std::string& victim, int from) {
  const auto steps = std::make_shared<std::atomic<int>>(0);
  return [=](const std::string& rank, RankRef,
             std::shared_ptr<engine::Engine> engine) -> std::shared_ptr<engine::Engine> {
    if (rank != victim) return engine;
    return std::make_shared<FaultyEngine>(std::move(engine),
                                          [=](EngineCall call, const engine::StepPlan*) {
                                            if (call == EngineCall::step && ++*steps >= from)
                                              throw std::runtime_error("no current");
                                          });
  };
}

class RoleGone : public testing::TestWithParam<const char*> {};

TEST_P(RoleGone, TheJobEndsKeepsItsAnswersAndGoesOn) {
  const std::string victim = GetParam();
  JournalledJob files(400);
  LiveOptions options;
  options.wrap = always_failing(victim, 20);
  options.job = files.open();
  const auto begin = std::chrono::steady_clock::now();
  const LiveRun run = run_live(config(), {}, options);
  options.job = nullptr;
  EXPECT_LT(seconds_since(begin), 20.0);
  EXPECT_TRUE(run.state.ended);
  EXPECT_FALSE(run.state.complete);
  EXPECT_EQ(run.state.code, ErrorCode::no_rank);
  EXPECT_EQ(run.state.failed, 0) << "lines without answer are left, not failed";
  for (const std::string& words : {victim, std::string("3 times"), std::string("no current"),
                                   std::string("the other lines are left")})
    EXPECT_NE(run.state.message.find(words), std::string::npos) << run.state.message;
  const std::size_t before = files.answered().size();
  EXPECT_GT(before, 0U);
  EXPECT_LT(before, 400U);

  LiveOptions again;
  again.job = files.open();
  EXPECT_TRUE(again.job->facts().is_resumed);
  const LiveRun rest = run_live(config(), {}, again);
  again.job = nullptr;
  EXPECT_TRUE(rest.state.complete) << rest.state.message;
  EXPECT_EQ(files.answered().size(), 400U);
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, RoleGone, testing::Values("prefill-0", "decode-0"), [](const auto& given) {
      return std::string(given.param).substr(0, std::string(given.param).find('-'));
    });

// -- actors that are no rank -------------------------------------------------------------------

/// Runs a long job and kills what `choose` names once it is well under way.
LiveRun kill_one(const std::function<caf::actor(const app::SystemActors&)>& choose) {
  const std::vector<Request> requests = requests_of(2000);
  LiveOptions options;
  std::thread killer;
  options.on_system = [&](app::LocalSystem& system) {
    killer = std::thread([&system, &choose] {
      while (system.totals()[1]->steps < 50)
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      caf::anon_send_exit(choose(system.actors()), caf::exit_reason::kill);
    });
  };
  const LiveRun run = run_live(config(), requests, options);
  killer.join();
  return run;
}

TEST(ActorGone, EndsTheJobWithItsName) {
  using Actors = app::SystemActors;
  const std::vector<std::pair<std::string, std::function<caf::actor(const Actors&)>>> all{
      {"driver", [](const Actors& a) { return a.peers->driver; }},
      {"prefill chunker", [](const Actors& a) { return a.peers->chunker; }},
      {"decode balancer", [](const Actors& a) { return a.peers->balancer; }},
      {"text worker", [](const Actors& a) { return a.peers->text; }},
      {"journal writer", [](const Actors& a) { return a.peers->store; }},
      {"supervisor", [](const Actors& a) { return a.supervisor; }},
      {"policy manager", [](const Actors& a) { return a.peers->manager; }},
  };
  for (const auto& [name, choose] : all) {
    const auto begin = std::chrono::steady_clock::now();
    const LiveRun run = kill_one(choose);
    EXPECT_TRUE(run.state.ended) << name;
    EXPECT_FALSE(run.state.complete) << name;
    EXPECT_NE(run.state.code, ErrorCode::ok) << name;
    EXPECT_EQ(run.state.message.rfind(name + " ended unexpectedly", 0), 0U) << run.state.message;
    EXPECT_LT(seconds_since(begin), 20.0) << name;
  }
}

TEST(ActorGone, AnExceptionEndsTheJobWithItsText) {
  const std::vector<Request> requests = requests_of(200);
  for (const char* stage : {"driver", "prefill", "decode"}) {
    LiveOptions options;
    int events = 0;
    options.tap = [&](const std::string& name, const sched::Event&, std::int64_t) {
      if (name == stage && ++events == 50) throw std::runtime_error("a bug in a stage");
    };
    const LiveRun run = run_live(config(), requests, options);
    EXPECT_FALSE(run.state.complete) << stage;
    EXPECT_NE(run.state.message.find("a bug in a stage"), std::string::npos) << run.state.message;
  }
}

// -- threads that hang -------------------------------------------------------------------------

DeathPoint decode_hangs() {
  DeathPoint point;
  point.name = "decode-0 hangs and never returns";
  point.victim = "decode-0";
  point.engine = "decode-0";
  point.death = Death::hangs;
  point.occurrence = 10;
  return point;
}

TEST(HangingThread, DoesNotKeepTheJobOrTheProcess) {
  RankDrill drill(decode_hangs());
  drill.keep_hanging();
  app::SystemConfig slow = config();
  slow.limits.no_progress_s = 1;
  slow.limits.attempts_max = 20;
  const std::vector<Request> requests = requests_of(300);
  const auto begin = std::chrono::steady_clock::now();
  const LiveRun run = run_live(slow, requests, drill.options());
  EXPECT_LT(seconds_since(begin), 20.0);
  EXPECT_TRUE(drill.fired());
  EXPECT_TRUE(run.state.complete) << run.state.message;
  EXPECT_EQ(run.answers.size(), 300U);
  EXPECT_EQ(run.failed, 0);
  EXPECT_TRUE(app::LocalSystem::left_threads());
}

// Ctrl-C twice while nobody has noticed yet that the rank hangs.
TEST(HangingThread, DoesNotKeepAnInterrupt) {
  RankDrill drill(decode_hangs());
  drill.keep_hanging();
  LiveOptions options = drill.options();
  const auto hooked = options.on_system;
  std::thread user;
  options.on_system = [&](app::LocalSystem& system) {
    hooked(system);
    user = std::thread([&] {
      while (!drill.fired())
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      system.interrupt(1);
      system.interrupt(2);
    });
  };
  const auto begin = std::chrono::steady_clock::now();
  const LiveRun run = run_live(config(), requests_of(300), options);
  user.join();
  EXPECT_LT(seconds_since(begin), 30.0);
  EXPECT_TRUE(run.state.ended);
  EXPECT_FALSE(run.state.complete);
  EXPECT_EQ(run.state.code, ErrorCode::ok) << "a clean stop";
  EXPECT_EQ(run.failed, 0);
}

TEST(AvailableMemory, IsWhatAMachineCanHave) {
  EXPECT_GT(app::available_memory_bytes(), 1 << 20);
  EXPECT_LT(app::available_memory_bytes(), 1LL << 50);
}

} // namespace
} // namespace troupe::test
