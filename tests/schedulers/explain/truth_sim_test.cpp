// 100 random requests of loaded runs, each with preemptions, dead ranks and swaps: the spans add up
// to the measured latency, and every statement is held against the ledger's entries.
//
// The check shares no code with what it checks: it reads the numbers back out of the words and
// counts for itself. Each kind of statement has its checker; one that none of them knows fails.

#include "schedulers/explain/explainer.hpp"
#include "tests/schedulers/explain/checks.hpp"
#include "tests/support/loaded_run.hpp"
#include "tests/support/seeds.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace troupe::sched::testing {
namespace {

/// `count` different places below `size`.
std::set<std::size_t> drawn(std::size_t size, std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::set<std::size_t> places;
  while (places.size() < std::min(size, count))
    places.insert(rng.below(size));
  return places;
}

/// Ranks that were lost, and sets that went live after the first one.
struct Events {
  std::int64_t ranks_lost = 0, swaps = 0;
};

Events events_of(const std::vector<LedgerEntry>& entries) {
  Events events;
  for (const LedgerEntry& entry : entries) {
    const auto* change = std::get_if<RankChange>(&entry.what);
    events.ranks_lost += change != nullptr && !change->up ? 1 : 0;
    const auto* live = std::get_if<SetLive>(&entry.what);
    events.swaps += live != nullptr && raw(live->set.epoch) > 1 ? 1 : 0;
  }
  return events;
}

void check_request(const Witness& witness, const Finish& finish,
                   std::map<std::string, std::int64_t>& met) {
  const std::string name = "request-" + std::to_string(raw(finish.request));
  Explainer explainer(name);
  for (const LedgerEntry& entry : witness.entries())
    explainer.take(entry);
  const std::vector<Story> stories = explainer.stories();
  ASSERT_EQ(stories.size(), 1U) << name;
  const Story& story = stories[0];
  EXPECT_EQ(story.custom_id, name);
  EXPECT_EQ(story.latency_us, finish.end_us - finish.arrival_us) << name;
  std::int64_t sum_us = 0;
  for (const StorySpan& span : story.spans) {
    EXPECT_EQ(span.from_us, sum_us) << name;
    sum_us += span.to_us - span.from_us;
    for (const std::string& fact : span.facts) {
      const Verdict verdict = witness.check(story, span, fact);
      EXPECT_EQ(verdict.problem, "") << name << ": " << span.what << ": " << fact;
      ++met[verdict.kind];
    }
  }
  EXPECT_EQ(sum_us, finish.end_us - finish.arrival_us) << name;
  EXPECT_EQ(witness.check_decisions(story), "") << name;
}

TEST(ExplainTruth, EveryStatementOfAHundredRequestsIsInTheLedger) {
  const test::Seeds seeds = test::seeds_or(8, 11);
  std::map<std::string, std::int64_t> met;
  std::int64_t preempted = 0;
  std::int64_t retried = 0;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    const sim::Plan plan = test::loaded_plan(seed);
    sim::Simulator simulator(plan.options, plan.requests);
    ASSERT_TRUE(simulator.run(plan.limit_us, plan.settle_us)) << simulator.problem();
    const sim::Report report = simulator.report();
    preempted += report.preempted;
    retried += report.retried;
    const Events events = events_of(simulator.entries());
    if (!seeds.are_given) {
      EXPECT_GT(report.preempted, 0) << "seed " << seed;
      EXPECT_GT(events.ranks_lost, 0) << "seed " << seed;
      EXPECT_EQ(events.swaps, 2) << "seed " << seed;
    }
    std::map<RankId, std::string> names;
    for (const RankOptions& rank : plan.options.ranks)
      names[rank.rank.rank] = rank.name;
    const Witness witness(simulator.entries(), names);
    const auto& all = simulator.outcomes().all();
    for (const std::size_t place : drawn(all.size(), 100, seed))
      check_request(witness, all[place].endings.at(0), met);
    if (HasFailure()) break;
  }
  std::printf("%lld preemptions, %lld attempts retried\n", static_cast<long long>(preempted),
              static_cast<long long>(retried));
  for (const auto& [kind, count] : met)
    std::printf("%7lld  %s\n", static_cast<long long>(count), kind.c_str());
  if (seeds.are_given) return;
  EXPECT_GT(preempted, 0);
  EXPECT_GT(retried, 0);
  for (const std::string& kind : Witness::kinds())
    EXPECT_GT(met[kind], 0) << "no statement of this kind was met: " << kind;
}

} // namespace
} // namespace troupe::sched::testing
