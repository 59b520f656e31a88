// Every scenario file over its seeds: all invariants, all expectations, twice the same run.
//
// A failure prints the command that repeats it. TROUPE_SEEDS=A..B runs other seeds.

#include "actors/app/bench_scheduler.hpp"
#include "actors/app/config_sim.hpp"
#include "tests/support/seeds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::sim {
namespace {

namespace fs = std::filesystem;

const std::string kFolder = std::string(TROUPE_SOURCE_DIR) + "/tests/sim/";

struct Total {
  std::int64_t runs = 0, requests = 0, ok = 0, retried = 0, faults = 0, events = 0;
  std::uint64_t hash = 0;
};

Scenario load(const std::string& name) {
  sched::PolicyRegistry registry;
  sched::register_builtin_policies(registry);
  app::SimOutcome outcome = app::load_sim_file(kFolder + name, registry);
  EXPECT_TRUE(outcome.ok()) << app::error_lines(outcome.errors);
  return std::move(outcome.scenario);
}

Total run_seeds(const std::string& name, std::uint64_t first, std::uint64_t last) {
  const Scenario scenario = load(name);
  Total total;
  if (::testing::Test::HasFailure()) return total;
  const test::Seeds seeds = test::seeds_or(first, last);
  first = seeds.first;
  last = seeds.last;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const SeedResult result = run_seed(scenario, seed);
    EXPECT_TRUE(result.ok()) << result.problem << "\nrepeat: build/troupe sim run tests/sim/"
                             << name << " --seeds " << seed;
    if (::testing::Test::HasFailure()) break;
    ++total.runs;
    total.requests += result.report.requests;
    total.ok += result.report.ended(ErrorCode::ok);
    total.retried += result.report.retried;
    total.faults += result.report.faults;
    total.events += result.report.events;
    total.hash = mix64(total.hash ^ result.report.trace_hash);
  }
  std::printf("%s: seeds %llu to %llu: %lld requests, %lld ok, %lld retried, %lld faults, %lld "
              "events, hash %016llx\n",
              name.c_str(), static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(last), static_cast<long long>(total.requests),
              static_cast<long long>(total.ok), static_cast<long long>(total.retried),
              static_cast<long long>(total.faults), static_cast<long long>(total.events),
              static_cast<unsigned long long>(total.hash));
  return total;
}

/// The seeds that the file names.
Total run_file(const std::string& name) {
  const Scenario scenario = load(name);
  return run_seeds(name, scenario.seed_first, scenario.seed_last);
}

TEST(Cases, S1_LargerThanThePool) { run_file("fast/s1_larger_than_the_pool.toml"); }
TEST(Cases, S3_ParkedPrefills) { run_file("fast/s3_parked_prefills.toml"); }
TEST(Cases, S4_AllSlotsTaken) { run_file("fast/s4_all_slots_taken.toml"); }
TEST(Cases, S7_OneAmongMany) { run_file("fast/s7_one_among_many.toml"); }
TEST(Cases, S12_NearlyFull) { run_file("fast/s12_nearly_full.toml"); }
TEST(Scenarios, LongStepsAreNoLosses) { run_file("fast/long_steps.toml"); }
TEST(Scenarios, LongStepsCostNoTryOfAHandoff) { run_file("fast/long_handoffs.toml"); }
TEST(Cases, P1_ClientsLeaveDuringHandoff) { run_file("fast/p1_clients_leave_during_handoff.toml"); }
TEST(Cases, P4_PrefillDiesMidRequest) { run_file("fast/p4_prefill_dies_mid_request.toml"); }
TEST(Cases, P6_PrefillIsBackAtOnce) { run_file("fast/p6_prefill_is_back_at_once.toml"); }
TEST(Cases, P7_PrefillDiesForGood) { run_file("fast/p7_prefill_dies_for_good.toml"); }
TEST(Cases, P10_NoPrefillLeft) { run_file("fast/p10_no_prefill_left.toml"); }
TEST(Cases, P12_DecodeDiesMidStream) { run_file("fast/p12_decode_dies_mid_stream.toml"); }

// Every file of the folder is run by a test of this file.
TEST(Scenarios, AllAreRun) {
  const std::vector<std::string> known = {"faults_4_4.toml",
                                          "long_handoffs.toml",
                                          "long_steps.toml",
                                          "p10_no_prefill_left.toml",
                                          "p12_decode_dies_mid_stream.toml",
                                          "p1_clients_leave_during_handoff.toml",
                                          "p4_prefill_dies_mid_request.toml",
                                          "p6_prefill_is_back_at_once.toml",
                                          "p7_prefill_dies_for_good.toml",
                                          "s12_nearly_full.toml",
                                          "s1_larger_than_the_pool.toml",
                                          "s3_parked_prefills.toml",
                                          "s4_all_slots_taken.toml",
                                          "s7_one_among_many.toml"};
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder + "fast")) {
    const std::string name = entry.path().filename().string();
    EXPECT_NE(std::find(known.begin(), known.end(), name), known.end()) << name;
  }
}

TEST(Scenarios, ExampleConfigurationHolds) {
  const Total total = run_file("../../configs/sim/split.toml");
  EXPECT_EQ(total.requests, 1200);
}

// Four prefill and four decode ranks under random faults. Printed: simulated events a second, all
// invariants on, and their ratio to a bare heap at the same pending count, measured in this run.
void faults_on_4_and_4(std::uint64_t last) {
  const auto begin = std::chrono::steady_clock::now();
  const Total total = run_seeds("fast/faults_4_4.toml", 1, last);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%llu seeds, three runs each, %.1f s\n", static_cast<unsigned long long>(last),
              seconds);
  std::printf("%s", app::bench_text(app::bench_scheduler(3)).c_str());
  if (test::seeds_or(0, 0).are_given) return;
  EXPECT_EQ(total.runs, static_cast<std::int64_t>(last));
  EXPECT_GT(total.ok, total.requests / 2);
  EXPECT_GT(total.retried, 0);
  EXPECT_GT(total.faults, total.runs * 5);
}

TEST(Scenarios, RandomFaultsOn4And4) { faults_on_4_and_4(300); }

TEST(ScenariosSlow, RandomFaultsOn4And4) { faults_on_4_and_4(10'000); }

TEST(CasesSlow, P9_TenMinutesOfKills) { run_file("slow/p9_ten_minutes_of_kills.toml"); }

} // namespace
} // namespace troupe::sim
