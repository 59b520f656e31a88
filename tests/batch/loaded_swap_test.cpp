// A thousand swaps to and fro between built-in and loaded policies while a job runs on real
// threads: what is mapped, the threads, the open files and the memory stay what they were.
//
// Counted at rest in both states, so that a library, a lane or a set that stays behind shows as a
// number: one more each swap. Memory has a bound from what a leak would cost, see kGrowthMaxKib.

#include "actors/app/job_setup.hpp"
#include "tests/actors/plugin_files.hpp"
#include "tests/support/disturbed_job.hpp"
#include "tests/support/endless_job.hpp"
#include "tests/support/process_sample.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

namespace troupe::test {
namespace {

/// Growth of resident memory from a fifth of the swaps to the last. A library that stays mapped
/// keeps at least four pages of its own: 16 KiB each other swap, 6,400 KiB in 800 swaps. A set that
/// stays is its text, options and a dozen instances, above 6 KiB each swap: 4,800 KiB. Timers of
/// the last minute's requests come and go: 100 bytes each, below 1 MiB at the pace of this job.
constexpr std::int64_t kGrowthMaxKib = 4096;

app::SystemConfig config() {
  app::SystemConfig out;
  out.model.path = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";
  out.kv.memory_bytes = 8LL << 20;
  out.limits.heartbeat_ms = 50;
  out.limits.lease_ms = 60'000; // A busy machine is no silence.
  out.limits.inflight_max = 16;
  out.limits.invalid_decisions_max = 1'000'000; // Late calls of a busy machine are no faults here.
  out.swap_timeout_ms = 120'000;
  for (app::RankGroupConfig& group : out.ranks) {
    group.device = "null";
    group.count = 2;
    group.cost_model.null_speed = 0.5;
  }
  return out;
}

std::shared_ptr<const sched::PolicyRegistry> registry_with_libraries() {
  auto registry = std::make_shared<sched::PolicyRegistry>();
  sched::register_builtin_policies(*registry);
  registry->set_library_source(std::make_shared<actors::PluginLoader>(loader_options()));
  return registry;
}

/// A policy of the test library for every kind that libraries may have; lanes in every other set.
sched::PolicySet loaded_set(bool lane) {
  sched::PolicySet set;
  set.name = lane ? "loaded, with lanes" : "loaded";
  set.probation.window_us = 0;
  set.libraries = {library(plugin_path("good_policies"), lane)};
  for (const auto& [kind, name] :
       std::map<std::string, std::string>{{"admission", "shorter_than"},
                                          {"queue", "newest"},
                                          {"prefill_router", "first_fit"},
                                          {"prefill_chunker", "one"},
                                          {"handoff", "two"},
                                          {"decode_balancer", "turns"},
                                          {"step", "sequences_first"},
                                          {"overlap", "one_more"}}) {
    set.kinds[kind] = {name, OptionTable(kind)};
  }
  set.kinds["admission"].options.set("alpha", {std::int64_t{0}, ""}); // Nobody is refused.
  return set;
}

/// What a process holds at rest.
struct Held {
  std::int64_t threads = 0, files = 0, lanes = 0;
  int libraries = 0;            ///< Mappings of private copies.
  std::set<std::string> mapped; ///< Files of all other mappings.
  bool operator==(const Held&) const = default;
};

std::set<std::string> mapped_files() {
  std::set<std::string> files;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/');
    if (path == std::string::npos) continue;
    if (line.find("/troupe-policy-") == std::string::npos) files.insert(line.substr(path));
  }
  return files;
}

Held held_now() {
  const ProcessSample sample = look_at_process();
  return {sample.threads, sample.files, actors::lane_counts().live, mapped_copies(),
          mapped_files()};
}

/// What is held once nothing of the swap is under way any more: a pre-flight's pipe, a look of the
/// journal. Waits for what is expected; what stays different is the answer.
Held held_at_rest(const Held* expected) {
  Held now = held_now();
  for (int ms = 0; ms < 10'000 && expected != nullptr && !(now == *expected); ++ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    now = held_now();
  }
  return now;
}

std::string shown(const Held& held) {
  return fmt::format("{} threads, {} files, {} lanes, {} mappings of libraries, {} other files",
                     held.threads, held.files, held.lanes, held.libraries, held.mapped.size());
}

/// Swaps, and what is held in each of the states that they alternate between.
class ToAndFro {
public:
  explicit ToAndFro(const EpochWatch& watch) : watch_(watch) {}

  void run(Swapper& swapper, int swaps) {
    const auto builtin = sets_of_all_builtins();
    for (int i = 0; i < swaps; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const bool loaded = i % 2 == 1;
      const auto ended =
          swapper.swap(loaded ? loaded_set(i % 4 == 1) : builtin[at / 2 % builtin.size()]);
      EXPECT_TRUE(ended.ok) << ended.reason;
      made += ended.ok ? 1 : 0;
      for (int ms = 0; ms < 2000 && !watch_.used(ended.epoch); ++ms)
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      look(static_cast<std::size_t>(i % 4), i);
      if (i == swaps / 5 || i == swaps - 1) rss_kib.push_back(look_at_process().rss_kib);
      if (different > 0 && i > 20) return; // One is enough.
    }
  }

  int made = 0;
  int different = 0;
  std::vector<std::int64_t> rss_kib;
  std::vector<Held> first; ///< [i mod 4] built in, with lanes, built in, without.

private:
  const EpochWatch& watch_;

  /// The first round may still map what a first call needs.
  void look(std::size_t state, int i) {
    if (i < 8) {
      if (i >= 4) first.push_back(held_at_rest(nullptr));
      return;
    }
    const Held now = held_at_rest(&first[state]);
    if (now == first[state]) return;
    ++different;
    ADD_FAILURE() << "after swap " << i << " " << shown(now) << "; at first "
                  << shown(first[state]);
  }
};

TEST(LoadedSwap, AThousandSwapsBetweenBuiltInAndLoadedLeaveNothing) {
  const char* wanted = std::getenv("TROUPE_SWAPS"); // More of them show whether memory is flat.
  const int swaps = wanted == nullptr ? 1000 : std::atoi(wanted);
  app::start_log("off"); // Each swap says a word.
  EpochWatch watch;
  ToAndFro swapping(watch);
  SwapsBeside beside(
      [&](Swapper& swapper, app::LocalSystem& /*system*/) { swapping.run(swapper, swaps); });
  const auto job = std::make_shared<EndlessJob>([&] { return beside.over.load(); });
  LiveOptions options;
  options.registry = registry_with_libraries();
  options.job = job;
  options.settle_ms = 5000;
  options.watch = [&](const std::string& stage, const sched::Effects& effects) {
    watch.see(stage, effects);
  };
  options.on_live = [&](const sched::SetLive& live) { watch.live(live); };
  beside.join_in(options);
  const LiveRun run = run_live(config(), {}, options);
  beside.wait();
  ASSERT_EQ(swapping.rss_kib.size(), 2U);
  std::cout << fmt::format("{} swaps, {} decisions, {} lines; built in: {}; loaded: {}; {} KiB "
                           "after a fifth of them, {} at the end\n",
                           swapping.made, watch.decisions(), job->done(), shown(swapping.first[0]),
                           shown(swapping.first[1]), swapping.rss_kib[0], swapping.rss_kib[1]);
  EXPECT_TRUE(run.state.complete) << run.state.message;
  EXPECT_EQ(job->facts().failed, 0);
  EXPECT_EQ(swapping.made, swaps);
  EXPECT_EQ(watch.wrong(), 0) << watch.first_wrong();
  EXPECT_GE(static_cast<int>(watch.epochs()), swaps) << "each set decided";
  // The states differ in what they must, so that the counts mean something.
  EXPECT_EQ(swapping.first[0].libraries, 0);
  EXPECT_EQ(swapping.first[0].lanes, 0);
  EXPECT_GT(swapping.first[1].libraries, 0);
  EXPECT_GT(swapping.first[1].lanes, 6);
  EXPECT_EQ(swapping.first[1].threads, swapping.first[0].threads + swapping.first[1].lanes);
  EXPECT_EQ(swapping.first[3].lanes, 0);
  EXPECT_LT(swapping.rss_kib[1], swapping.rss_kib[0] + kGrowthMaxKib);
  EXPECT_EQ(mapped_copies(), 0);
  EXPECT_EQ(actors::lane_counts().live, 0);
  EXPECT_EQ(actors::lane_counts().left_behind, 0);
}

} // namespace
} // namespace troupe::test
