// Policy sets are swapped while a job runs on real threads: no request is lost, every decision
// carries the epoch that is live on its stage, answers are those of a run without swaps, and
// threads, actors and memory stay what they were.

#include "actors/app/job_setup.hpp"
#include "schedulers/core/rng.hpp"
#include "tests/support/disturbed_job.hpp"
#include "tests/support/endless_job.hpp"
#include "tests/support/eval_requests.hpp"
#include "tests/support/faulty_engine.hpp"
#include "tests/support/process_sample.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

namespace troupe::test {
namespace {

const std::string kModel = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";

app::SystemConfig config(const char* device, std::int64_t count) {
  app::SystemConfig out;
  out.model.path = kModel;
  out.kv.memory_bytes = 8LL << 20;
  out.limits.heartbeat_ms = 50;
  out.swap_timeout_ms = 30'000; // A busy machine is no silence.
  for (app::RankGroupConfig& group : out.ranks) {
    group.device = device;
    group.count = count;
  }
  return out;
}

/// A thread of swaps beside a job, which goes on until they are over; every decision is looked at.
class Beside : public SwapsBeside {
public:
  using SwapsBeside::SwapsBeside;
  ~Beside() { wait(); } // The work uses `watch`.

  LiveOptions options() {
    LiveOptions out;
    out.watch = [this](const std::string& stage, const sched::Effects& effects) {
      watch.see(stage, effects);
    };
    out.on_live = [this](const sched::SetLive& live) { watch.live(live); };
    join_in(out);
    return out;
  }

  EpochWatch watch;
};

/// Answers of every kind without a swap.
const EndlessJob::Answers& undisturbed() {
  static const EndlessJob::Answers answers = [] {
    std::shared_ptr<EndlessJob> job;
    job = std::make_shared<EndlessJob>([&] { return job->done() >= 3 * EndlessJob::kKinds; });
    LiveOptions options;
    options.job = job;
    const LiveRun run = run_live(config("null", 2), {}, options);
    EXPECT_TRUE(run.state.complete) << run.state.message;
    EXPECT_EQ(std::ssize(job->answers()), EndlessJob::kKinds);
    return job->answers();
  }();
  return answers;
}

/// Resident memory at the end of a run without swaps: timers of requests are kept until they are
/// due, so it grows with the lines of the first minute.
std::int64_t rss_kib_without_swaps(std::int64_t lines) {
  std::int64_t rss_kib = 0;
  std::shared_ptr<EndlessJob> job;
  job = std::make_shared<EndlessJob>(
      [&] {
        if (job->done() < lines) return false;
        rss_kib = look_at_process().rss_kib;
        return true;
      },
      undisturbed());
  LiveOptions options;
  options.job = job;
  EXPECT_TRUE(run_live(config("null", 2), {}, options).state.complete);
  return rss_kib;
}

std::string shown(const ProcessSample& sample) {
  return fmt::format("rss {} KiB, {} threads, {} files", sample.rss_kib, sample.threads,
                     sample.files);
}

TEST(LiveSwap, AThousandSwapsUnderLoad) {
  const char* wanted = std::getenv("TROUPE_SWAPS"); // More of them show whether memory is flat.
  const int swaps = wanted == nullptr ? 1000 : std::atoi(wanted);
  constexpr std::int64_t kDecisions = 100'000;
  app::start_log("off");                                             // Each swap says a word.
  const std::int64_t calm_kib = rss_kib_without_swaps(40LL * swaps); // About as many lines.
  const auto sets = sets_of_all_builtins();
  std::vector<ProcessSample> samples;
  std::int64_t made = 0;
  Beside beside([&](Swapper& swapper, app::LocalSystem&) {
    for (int i = 0; i < swaps || beside.watch.decisions() < kDecisions; ++i) {
      const auto ended = swapper.swap(sets[static_cast<std::size_t>(i) % sets.size()]);
      EXPECT_TRUE(ended.ok) << ended.reason;
      made += ended.ok ? 1 : 0;
      for (int ms = 0; ms < 2000 && !beside.watch.used(ended.epoch); ++ms)
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      if (i % (swaps / 10) == swaps / 20) samples.push_back(look_at_process());
    }
  });
  const auto job = std::make_shared<EndlessJob>([&] { return beside.over.load(); }, undisturbed());
  LiveOptions options = beside.options();
  options.job = job;
  options.settle_ms = 5000;
  const LiveRun run = run_live(config("null", 2), {}, options);
  std::cout << fmt::format("{} KiB after as many lines without swaps\n{} swaps, {} decisions by {} "
                           "sets, {} lines; {} at first, {} at last\n",
                           calm_kib, made, beside.watch.decisions(), beside.watch.epochs(),
                           job->done(), shown(samples.front()), shown(samples.back()));
  for (const ProcessSample& sample : samples)
    std::cout << sample.rss_kib << " ";
  std::cout << "KiB\n";
  EXPECT_TRUE(run.state.complete) << run.state.message;
  EXPECT_EQ(job->facts().failed, 0);
  EXPECT_GE(made, swaps);
  EXPECT_GE(beside.watch.decisions(), kDecisions);
  EXPECT_EQ(beside.watch.wrong(), 0) << beside.watch.first_wrong();
  EXPECT_GE(static_cast<std::int64_t>(beside.watch.epochs()), made) << "each set decided";
  EXPECT_EQ(run.slots_held, 0);
  EXPECT_TRUE(run.conserved);
  EXPECT_EQ(samples.back().threads, samples.front().threads);
  EXPECT_EQ(samples.back().files, samples.front().files);
  EXPECT_LT(samples.back().rss_kib, calm_kib + 16'384);
  EXPECT_EQ(run.policies.history.size(), 64U) << "the history is bounded";
}

std::vector<Request> null_requests(int count) {
  std::vector<Request> out;
  for (int i = 0; i < count; ++i) {
    out.emplace_back(text::Endpoint::completions,
                     fmt::format(R"({{"prompt":[{},21,22],"max_tokens":{},"ignore_eos":true}})",
                                 30 + i % 100, 2 + i % 15));
  }
  return out;
}

// R14: a swap with 1,000 requests in flight mixes no decision and loses no request.
TEST(LiveSwap, R14_AThousandRequestsInFlight) {
  app::SystemConfig many = config("null", 2);
  many.limits.inflight_max = 1000;
  const std::vector<Request> requests = null_requests(5000);
  const LiveRun calm = run_live(many, requests);
  ASSERT_EQ(calm.answers.size(), 5000U);
  const auto sets = sets_of_all_builtins();
  int made = 0;
  std::atomic<bool> ended{false};
  Beside beside([&](Swapper& swapper, app::LocalSystem&) {
    while (!ended)
      made += swapper.swap(sets[static_cast<std::size_t>(made) % sets.size()]).ok ? 1 : 0;
  });
  LiveOptions options = beside.options();
  std::atomic<int> answered{0};
  options.watch = [&](const std::string& stage, const sched::Effects& effects) {
    beside.watch.see(stage, effects);
    for (const sched::Effect& effect : effects.list())
      if (std::holds_alternative<sched::Finish>(effect) && ++answered == 4900) ended = true;
  };
  const LiveRun run = run_live(many, requests, options);
  std::cout << made << " swaps, " << beside.watch.decisions() << " decisions\n";
  EXPECT_TRUE(run.state.complete) << run.state.message;
  EXPECT_EQ(run.failed, 0);
  EXPECT_EQ(run.answers, calm.answers);
  EXPECT_GT(made, 5);
  EXPECT_EQ(beside.watch.wrong(), 0) << beside.watch.first_wrong();
}

// R8: swapping a component ten times leaves no thread and no actor behind, shadows included.
TEST(LiveSwap, R8_ThreadsAndActorsStayWhatTheyWere) {
  sched::PolicySet with_shadow;
  with_shadow.name = "shadow";
  with_shadow.probation.window_us = 0;
  with_shadow.shadow["decode_balancer"].policy = "least_kv";
  sched::PolicySet without = with_shadow;
  without.name = "no shadow";
  without.shadow.clear();
  std::vector<std::pair<std::int64_t, std::size_t>> seen;
  Beside beside([&](Swapper& swapper, app::LocalSystem& system) {
    auto& registry = system.actors().peers->manager.home_system().registry();
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(swapper.swap(i % 2 == 0 ? with_shadow : without).ok);
      seen.emplace_back(look_at_process().threads, registry.running());
    }
  });
  const auto job = std::make_shared<EndlessJob>([&] { return beside.over.load(); }, undisturbed());
  LiveOptions options = beside.options();
  options.job = job;
  const LiveRun run = run_live(config("null", 1), {}, options);
  EXPECT_TRUE(run.state.complete) << run.state.message;
  for (const auto& one : seen)
    EXPECT_EQ(one, seen.front());
  EXPECT_EQ(beside.watch.wrong(), 0) << beside.watch.first_wrong();
}

// R10: the accounts of weighted_fair go along when only a weight changes; here on a running system,
// state by state in schedulers/stage/slot_desk_test.cpp.
TEST(LiveSwap, R10_TheSamePolicyWithAnotherWeight) {
  const auto fair = [](double weight) {
    sched::PolicySet set;
    set.name = fmt::format("weight {}", weight);
    set.probation.window_us = 0;
    set.kinds["queue"] = {"weighted_fair", OptionTable("queue")};
    set.kinds["queue"].options.set("weights.user 1", {weight, ""});
    return set;
  };
  std::mutex mutex;
  std::string before;
  std::int64_t kept = 0, lost = 0;
  Beside beside([&](Swapper& swapper, app::LocalSystem&) {
    for (int i = 0; i < 40; ++i)
      EXPECT_TRUE(swapper.swap(fair(i % 2 == 0 ? 2.0 : 0.5)).ok);
  });
  const auto job = std::make_shared<EndlessJob>([&] { return beside.over.load(); }, undisturbed());
  LiveOptions options = beside.options();
  options.job = job;
  options.policies = fair(1.0);
  // A fresh instance exports a floor of 0 and no tenant.
  options.watch = [&](const std::string& stage, const sched::Effects& effects) {
    beside.watch.see(stage, effects);
    for (const sched::Effect& effect : effects.list()) {
      const auto* record = std::get_if<sched::Record>(&effect);
      if (record == nullptr || record->kind != "queue" || raw(record->epoch) < 3) continue;
      const auto& asked = *std::get<sched::AskedPtr<sched::QueueQuestion>>(*record->asked);
      if (!asked.has_state) continue;
      const std::lock_guard lock(mutex);
      ++(asked.state.find('\n') + 1 < asked.state.size() ? kept : lost);
    }
  };
  const LiveRun run = run_live(config("null", 1), {}, options);
  EXPECT_TRUE(run.state.complete) << run.state.message;
  EXPECT_GT(kept, 0);
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(beside.watch.wrong(), 0) << beside.watch.first_wrong();
}

TEST(LiveSwap, RanksThatDieAreReplacedByLivesOfTheLiveSet) {
  const std::uint64_t seed = 20261130;
  std::cout << "seed " << seed << "\n";
  app::start_log("off"); // Each death says a word.
  std::mutex mutex;
  Rng rng(seed);
  const auto sets = sets_of_all_builtins();
  std::int64_t made = 0, refused = 0;
  std::shared_ptr<actors::SupervisorFacts> supervised;
  Beside beside([&](Swapper& swapper, app::LocalSystem& system) {
    supervised = system.actors().supervised;
    for (std::size_t i = 0; i < 150 || supervised->lost < 30; ++i)
      ++(swapper.swap(sets[i % sets.size()]).ok ? made : refused);
  });
  const auto job = std::make_shared<EndlessJob>([&] { return beside.over.load(); }, undisturbed());
  LiveOptions options = beside.options();
  options.job = job;
  options.settle_ms = 5000;
  options.wrap = [&](const std::string&, RankRef, std::shared_ptr<engine::Engine> engine) {
    return std::make_shared<FaultyEngine>(
        std::move(engine), [&](EngineCall call, const engine::StepPlan*) {
          const std::lock_guard lock(mutex);
          const bool dies = call != EngineCall::closed && !beside.over && rng.below(1500) == 0;
          if (dies) throw std::runtime_error("a storm");
        });
  };
  app::SystemConfig stormy = config("null", 2);
  stormy.limits.attempts_max = 1000;
  stormy.limits.rank_restarts_max = 1'000'000;
  stormy.limits.lease_ms = 1000;
  const LiveRun run = run_live(stormy, {}, options);
  std::cout << fmt::format("{} swaps, {} refused, {} lives, {} decisions\n", made, refused,
                           run.restarts, beside.watch.decisions());
  EXPECT_TRUE(run.state.complete) << run.state.message;
  EXPECT_EQ(job->facts().failed, 0);
  EXPECT_GE(run.restarts, 25);
  EXPECT_GE(made, 100);
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(beside.watch.wrong(), 0) << beside.watch.first_wrong();
}

TEST(LiveSwap, AnswersOfTheBundledModelStayTheSame) {
  const std::vector<Request> requests = eval_requests(kModel, 40, [](auto& body, auto, auto) {
    body["max_tokens"] = 12;
    body["ignore_eos"] = true;
  });
  const app::SystemConfig cpu = config("cpu", 1);
  const LiveRun calm = run_live(cpu, requests);
  ASSERT_EQ(calm.answers.size(), 40U);
  const auto sets = sets_of_all_builtins();
  std::atomic<int> answered{0};
  std::size_t made = 0;
  Beside beside([&](Swapper& swapper, app::LocalSystem&) {
    while (answered < 38)
      made += swapper.swap(sets[made % sets.size()]).ok ? 1 : 0;
  });
  LiveOptions options = beside.options();
  options.watch = [&](const std::string& stage, const sched::Effects& effects) {
    beside.watch.see(stage, effects);
    for (const sched::Effect& effect : effects.list())
      if (std::holds_alternative<sched::Finish>(effect)) ++answered;
  };
  const LiveRun run = run_live(cpu, requests, options);
  std::cout << made << " swaps\n";
  EXPECT_TRUE(run.state.complete);
  EXPECT_EQ(run.answers, calm.answers);
  EXPECT_GT(made, 5U);
  EXPECT_EQ(beside.watch.wrong(), 0) << beside.watch.first_wrong();
}

TEST(LiveSwap, EpochsGoOnFromAnEarlierRun) {
  sched::PolicySet set;
  set.name = "next";
  Beside beside(
      [&](Swapper& swapper, app::LocalSystem&) { EXPECT_EQ(raw(swapper.swap(set).epoch), 42U); });
  const auto job = std::make_shared<EndlessJob>([&] { return beside.over.load(); });
  LiveOptions options = beside.options();
  options.job = job;
  options.first_epoch = 41;
  std::mutex mutex;
  std::set<std::uint64_t> seen;
  options.watch = [&](const std::string&, const sched::Effects& effects) {
    const std::lock_guard lock(mutex);
    for (const sched::Effect& effect : effects.list())
      if (const auto* record = std::get_if<sched::Record>(&effect)) seen.insert(raw(record->epoch));
  };
  const LiveRun run = run_live(config("null", 1), {}, options);
  EXPECT_TRUE(run.state.complete);
  ASSERT_FALSE(seen.empty());
  EXPECT_GE(*seen.begin(), 41U);
}

} // namespace
} // namespace troupe::test
