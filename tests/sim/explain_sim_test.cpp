// The milestones of every request of every scenario, seed by seed: each follows on the one before,
// they cover its time from arrival to end exactly, and its story is as long as it took.
//
// A failure prints scenario and seed. TROUPE_SEEDS=A..B runs other seeds.

#include "actors/app/config_sim.hpp"
#include "schedulers/explain/explainer.hpp"
#include "schedulers/explain/life.hpp"
#include "tests/support/loaded_run.hpp"
#include "tests/support/seeds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace troupe::sim {
namespace {

namespace fs = std::filesystem;
using namespace sched;

const std::string kFolder = std::string(TROUPE_SOURCE_DIR) + "/tests/sim/fast/";

Scenario load(const std::string& path) {
  PolicyRegistry registry;
  register_builtin_policies(registry);
  app::SimOutcome outcome = app::load_sim_file(path, registry);
  EXPECT_TRUE(outcome.ok()) << app::error_lines(outcome.errors);
  return std::move(outcome.scenario);
}

struct Total {
  std::int64_t runs = 0, requests = 0, refused = 0, legs = 0, again = 0, stories = 0, spans = 0;
};

/// What belongs to each request alone, by time.
std::map<RequestId, Life> lives_of(const std::vector<LedgerEntry>& entries) {
  std::map<RequestId, Life> lives;
  for (const LedgerEntry& entry : entries) {
    if (const auto* milestone = std::get_if<Milestone>(&entry.what)) {
      lives[milestone->ref.request].entries.push_back(entry);
    } else if (const auto* finish = std::get_if<Finish>(&entry.what)) {
      lives[finish->request].finish = *finish;
    }
  }
  for (auto& [request, life] : lives) {
    life.request = request;
    sort_by_time(life.entries);
  }
  return lives;
}

/// What is wrong with the milestones of one request, or empty.
std::string check_legs(const Life& life, const std::vector<Leg>& legs) {
  const Finish& finish = *life.finish;
  if (legs.empty()) return finish.end_us == finish.arrival_us ? "" : "it has no milestone";
  if (legs.front().phase != Phase::waits_for_rank || legs.front().said_by != StageKind::driver ||
      legs.front().ref.attempt != Attempt{1}) {
    return "its first milestone is " + std::string(phase_name(legs.front().phase));
  }
  if (legs.front().from_us != finish.arrival_us) return "it begins after its arrival";
  if (legs.back().to_us != finish.end_us) return "it ends at another time";
  for (std::size_t i = 1; i < legs.size(); ++i) {
    const Leg& before = legs[i - 1];
    const Leg& leg = legs[i];
    const bool same = before.ref == leg.ref;
    const bool next_one = before.ref.attempt < leg.ref.attempt;
    if (leg.from_us != before.to_us || leg.from_us > leg.to_us) return "its legs do not meet";
    if ((!same && !next_one) || !may_follow(before.phase, leg.phase, same)) {
      return std::string(phase_name(leg.phase)) + " of attempt " +
             std::to_string(raw(leg.ref.attempt)) + " after " +
             std::string(phase_name(before.phase)) + " of attempt " +
             std::to_string(raw(before.ref.attempt));
    }
  }
  return {};
}

/// What is wrong with a story, or empty.
std::string check_story(const Story& story, const Finish& finish) {
  const std::int64_t latency_us = finish.end_us - finish.arrival_us;
  if (!story.ended || story.latency_us != latency_us) return "it took another time";
  std::int64_t told_us = 0;
  for (const StorySpan& span : story.spans) {
    if (span.from_us != told_us || span.to_us <= span.from_us) return "spans with a gap";
    if (!span.phase) return "a span that the ledger does not have";
    if (span.facts.empty() || span.what.empty()) return "a span without words";
    told_us = span.to_us;
  }
  return told_us == latency_us ? "" : "the spans do not add up";
}

std::string check_stories(const std::vector<LedgerEntry>& entries,
                          const std::map<RequestId, Life>& lives, Total& total) {
  for (const auto& [request, life] : lives) {
    Explainer explainer("request-" + std::to_string(raw(request)));
    for (const LedgerEntry& entry : entries)
      explainer.take(entry);
    const std::vector<Story> stories = explainer.stories();
    if (stories.size() != 1) return std::to_string(stories.size()) + " stories";
    ++total.stories;
    total.spans += static_cast<std::int64_t>(stories[0].spans.size());
    const std::string problem = check_story(stories[0], *life.finish);
    if (!problem.empty()) return "request " + std::to_string(raw(request)) + ": " + problem;
  }
  return {};
}

/// Runs one seed; what was wrong, or empty.
std::string run_one(Plan plan, bool tell, Total& total) {
  plan.options.keep_records = true;
  Simulator simulator(plan.options, plan.requests);
  if (!simulator.run(plan.limit_us, plan.settle_us)) return "run: " + simulator.problem();
  const std::map<RequestId, Life> lives = lives_of(simulator.entries());
  ++total.runs;
  for (const Outcome& outcome : simulator.outcomes().all()) {
    const auto found = lives.find(outcome.plan.request);
    if (found == lives.end() || !found->second.finish) return "a request without an ending";
    const std::vector<Leg> legs = legs_of(found->second);
    ++total.requests;
    total.refused += legs.empty() ? 1 : 0;
    total.legs += static_cast<std::int64_t>(legs.size());
    total.again += !legs.empty() && legs.back().ref.attempt > Attempt{1} ? 1 : 0;
    const std::string problem = check_legs(found->second, legs);
    if (!problem.empty()) {
      return "request " + std::to_string(raw(outcome.plan.request)) + ": " + problem;
    }
  }
  return tell ? check_stories(simulator.entries(), lives, total) : std::string();
}

/// @param make  a plan of a seed   @param told  seeds whose stories are told in full
template <class Make>
Total run_seeds(const std::string& name, std::uint64_t first, std::uint64_t last,
                std::uint64_t told, const Make& make) {
  Total total;
  const test::Seeds seeds = test::seeds_or(first, last);
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    const std::string problem = run_one(make(seed), seed < seeds.first + told, total);
    EXPECT_EQ(problem, "") << name << " seed " << seed << "; repeat: TROUPE_SEEDS=" << seed
                           << " build/tests/explain_sim_test";
    if (!problem.empty()) break;
  }
  std::printf("%s: seeds %llu to %llu: %lld requests, %lld refused, %lld with several tries, %lld "
              "legs; %lld stories of %lld spans\n",
              name.c_str(), static_cast<unsigned long long>(seeds.first),
              static_cast<unsigned long long>(seeds.last), static_cast<long long>(total.requests),
              static_cast<long long>(total.refused), static_cast<long long>(total.again),
              static_cast<long long>(total.legs), static_cast<long long>(total.stories),
              static_cast<long long>(total.spans));
  return total;
}

TEST(ExplainSim, SpansCoverTheLatencyOfEveryRequestOfEveryScenario) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_GE(files.size(), 12U);
  for (const fs::path& file : files) {
    const bool faults = file.filename() == "faults_4_4.toml";
    const Scenario scenario = load(file.string());
    const Total total = run_seeds(file.filename().string(), 1, faults ? 300 : 20, faults ? 30 : 2,
                                  [&](std::uint64_t seed) { return plan_of(scenario, seed); });
    EXPECT_GT(total.requests, 0);
    if (!test::seeds_or(0, 0).are_given) {
      EXPECT_GE(total.again, faults ? 100 : 0);
    }
  }
}

// Little room, preemptions, dead ranks, lost messages, swaps.
TEST(ExplainSim, SpansCoverTheLatencyUnderPressure) {
  const Total total = run_seeds("loaded", 1, 150, 5, test::loaded_plan);
  if (test::seeds_or(0, 0).are_given) return;
  EXPECT_GT(total.again, 1000);
}

} // namespace
} // namespace troupe::sim
