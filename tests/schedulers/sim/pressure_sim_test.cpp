// KV pools far too small, answers longer than expected: everything ends once with the tokens of the
// undisturbed run, preemptions stay bounded, and nothing deadlocks. Every seed runs twice.
//
// Seeds are fixed. A failure names the seed; TROUPE_SEED=n runs only that one, TROUPE_SEEDS=n runs
// that many.

#include "tests/support/pipeline_harness.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace troupe::sched::testing {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

struct Job {
  std::int64_t at_us, prompt, new_tokens_max, answer;
};

struct Pressure {
  PipelineOptions options;
  std::vector<Job> jobs;
};

std::int64_t between(Rng& rng, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(high - low + 1)));
}

/// Answers mostly short and sometimes at their limit: what a quantile promises too little for.
std::int64_t answer_of(Rng& rng, std::int64_t new_tokens_max) {
  return rng.below(4) == 0 ? new_tokens_max
                           : between(rng, 1, std::min<std::int64_t>(6, new_tokens_max));
}

Pressure pressure_of(std::uint64_t seed) {
  Rng rng(draw(seed, 17, Purpose::seed));
  Pressure made;
  PipelineOptions& options = made.options;
  options.seed = seed;
  options.driver.reservation = Reservation::expected;
  options.driver.expected_permille = between(rng, 200, 900);
  options.driver.preemptions_max = between(rng, 0, 4);
  options.driver.no_progress_us = 60 * kSecond;
  options.delay_us_max = between(rng, 1, 2000);
  options.cost_model.step_ps = 500'000'000;
  options.cost_model.token_ps = 50'000'000;
  options.policies.kinds["queue"].policy = rng.below(2) == 0 ? "fcfs" : "sjf";
  options.policies.kinds["step"].policy = rng.below(2) == 0 ? "decode_first" : "prefill_first";
  const auto add = [&](Role role, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      options.ranks.push_back(
          {role, between(rng, 8, 14), between(rng, 2, 8), between(rng, 4, 24), 0});
    }
  };
  switch (rng.below(4)) {
  case 0:
    add(Role::both, between(rng, 1, 2));
    break;
  case 1:
    add(Role::prefill, between(rng, 1, 2));
    add(Role::decode, between(rng, 1, 2));
    break;
  case 2:
    add(Role::prefill, 1);
    add(Role::both, 1);
    add(Role::decode, 1);
    break;
  default:
    add(Role::prefill, 2);
    add(Role::both, 1);
    break;
  }
  for (int i = 0; i < 40; ++i) {
    // 8 blocks of 4 hold the longest prompt with its first token; not every answer.
    Job job{between(rng, 0, 150'000), between(rng, 1, 20), between(rng, 16, 31), 0};
    job.answer = answer_of(rng, job.new_tokens_max);
    made.jobs.push_back(job);
  }
  return made;
}

struct Totals {
  std::int64_t requests = 0, ok = 0, outgrown = 0, preempted = 0, most = 0;
};

std::uint64_t run(const Pressure& pressure, Totals& totals) {
  Pipeline pipeline(pressure.options);
  pipeline.start();
  for (std::size_t i = 0; i < pressure.jobs.size(); ++i) {
    const Job& job = pressure.jobs[i];
    pipeline.arrive_at(job.at_us, RequestId{i + 1}, job.prompt, job.new_tokens_max);
    pipeline.eos_after(RequestId{i + 1}, job.answer);
  }
  EXPECT_TRUE(pipeline.run(900 * kSecond, 60 * kSecond))
      << "problem: " << pipeline.problem() << "; left: " << pipeline.leftovers();
  EXPECT_EQ(pipeline.leftovers(), "");
  for (std::size_t i = 0; i < pressure.jobs.size(); ++i) {
    const Job& job = pressure.jobs[i];
    const auto found = pipeline.outcomes().find(RequestId{i + 1});
    if (found == pipeline.outcomes().end() || found->second.endings.empty()) continue;
    const Finish& ending = found->second.endings[0];
    const auto tokens = static_cast<std::int64_t>(found->second.tokens.size());
    totals.ok += ending.code == ErrorCode::ok;
    totals.outgrown += ending.code == ErrorCode::never_fits;
    if (ending.code == ErrorCode::ok) {
      EXPECT_EQ(tokens, job.answer) << "request " << i + 1; // The harness compares each token.
    } else {
      // It had every rank that could hold it to itself and outgrew the largest one.
      EXPECT_EQ(ending.code, ErrorCode::never_fits) << ending.detail;
      EXPECT_GE(job.prompt + tokens, 8 * 4) << "request " << i + 1;
      EXPECT_LT(tokens, job.answer);
    }
    EXPECT_EQ(ending.attempts, 1U) << "a preemption is no lost attempt";
  }
  const DriverCounts& counts = pipeline.driver().counts();
  EXPECT_EQ(counts.retried, 0);
  const auto requests = static_cast<std::int64_t>(pressure.jobs.size());
  const auto sizes = static_cast<std::int64_t>(pressure.options.ranks.size());
  EXPECT_LE(counts.preempted, requests * (pressure.options.driver.preemptions_max + sizes));
  totals.requests += requests;
  totals.preempted += counts.preempted;
  totals.most = std::max(totals.most, counts.preempted * 1000 / requests);
  return pipeline.trace_hash();
}

// Cases S3, S4, S11, S12: parked prefills, few slots, nearly full pools, mixed sizes.
TEST(PressureSim, S3S4S11S12EverythingEndsAndPreemptionsStayFew) {
  const char* only = std::getenv("TROUPE_SEED");
  const char* more = std::getenv("TROUPE_SEEDS");
  const std::uint64_t count = more == nullptr ? 200 : std::strtoull(more, nullptr, 10);
  std::printf("seeds 1 to %llu\n", static_cast<unsigned long long>(count));
  Totals totals;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    if (only != nullptr && std::strtoull(only, nullptr, 10) != seed) continue;
    SCOPED_TRACE("TROUPE_SEED=" + std::to_string(seed));
    const Pressure pressure = pressure_of(seed);
    const std::uint64_t once = run(pressure, totals);
    EXPECT_EQ(once, run(pressure, totals)) << "the same seed gave another trace";
    if (::testing::Test::HasFailure()) break;
  }
  std::printf("%lld requests: ok %lld, outgrew every rank %lld; preemptions %lld, at most %.3f a "
              "request in one run\n",
              static_cast<long long>(totals.requests), static_cast<long long>(totals.ok),
              static_cast<long long>(totals.outgrown), static_cast<long long>(totals.preempted),
              static_cast<double>(totals.most) / 1000.0);
  if (only != nullptr || more != nullptr) return;
  EXPECT_GT(totals.preempted, 0);
  EXPECT_GT(totals.outgrown, 0);
  EXPECT_LT(totals.preempted, totals.requests) << "fewer than one a request over all";
}

// Case S8 end to end: alone on the rank, the answer outgrows it. A typed error that says what to
// do, never a crash; who follows is served.
TEST(PressureSim, S8TheOnlyRequestThatOutgrowsThePoolEndsWithATypedError) {
  PipelineOptions options;
  options.ranks = {{Role::prefill, 16, 4, 16, 0}, {Role::decode, 8, 4, 16, 0}};
  options.driver.reservation = Reservation::expected;
  Pipeline pipeline(options);
  pipeline.start();
  pipeline.arrive_at(10, RequestId{1}, 12, 1000);
  pipeline.arrive_at(20, RequestId{2}, 12, 1000);
  pipeline.eos_after(RequestId{2}, 5);
  ASSERT_TRUE(pipeline.run(600 * kSecond, 30 * kSecond)) << pipeline.problem();
  const Outcome& outgrown = pipeline.outcomes().at(RequestId{1});
  EXPECT_EQ(outgrown.endings[0].code, ErrorCode::never_fits);
  EXPECT_NE(outgrown.endings[0].detail.find("raise kv.memory"), std::string::npos)
      << outgrown.endings[0].detail;
  EXPECT_EQ(outgrown.tokens.size(), 8U * 4U - 12U + 1U) << "every position was used";
  EXPECT_EQ(pipeline.outcomes().at(RequestId{2}).endings[0].code, ErrorCode::ok);
  EXPECT_EQ(pipeline.leftovers(), "");
}

// Case S6 end to end: of two equal requests that compete, the one that arrived first ends first.
TEST(PressureSim, S6APreemptedRequestIsServedBeforeThoseThatCameAfterIt) {
  PipelineOptions options;
  options.ranks = {{Role::both, 12, 4, 16, 0}};
  options.driver.reservation = Reservation::expected;
  options.driver.expected_permille = 500;
  Pipeline pipeline(options);
  pipeline.start();
  // Eight short ones teach it to expect little; then three long ones, and short ones behind them.
  for (std::uint64_t id = 1; id <= 30; ++id) {
    const bool is_long = id == 9 || id == 10 || id == 11;
    pipeline.arrive_at(id <= 8 ? 10 : 2 * kSecond + static_cast<std::int64_t>(id), RequestId{id}, 7,
                       31);
    if (!is_long) pipeline.eos_after(RequestId{id}, 3);
  }
  ASSERT_TRUE(pipeline.run(600 * kSecond, 30 * kSecond)) << pipeline.problem();
  EXPECT_GT(pipeline.driver().counts().preempted, 0);
  const auto end_us = [&](std::uint64_t id) {
    return pipeline.outcomes().at(RequestId{id}).endings[0].end_us;
  };
  EXPECT_LT(end_us(9), end_us(10));
  EXPECT_LT(end_us(10), end_us(11));
  for (std::uint64_t id = 14; id <= 30; ++id)
    EXPECT_GT(end_us(id), end_us(9)) << "request " << id;
}

// A report that is lost alone leaves nothing behind.
TEST(PressureSim, ALostReportIsMadeUpFor) {
  for (const Role role : {Role::decode, Role::both}) {
    PipelineOptions options;
    options.ranks = {{Role::prefill, 16, 4, 16, 0}, {role, 16, 4, 16, 0}};
    Pipeline pipeline(options);
    pipeline.start();
    pipeline.arrive_at(10, RequestId{1}, 12, 6);
    bool lost = false;
    pipeline.after_event = [&](const Pipeline& p) {
      const auto found = p.outcomes().find(RequestId{1});
      if (lost || found == p.outcomes().end() || found->second.tokens.size() < 5) return;
      lost = true; // The report of the last step is the next one that is sent.
      const_cast<Pipeline&>(p).lose_next<RankReport>(1);
    };
    ASSERT_TRUE(pipeline.run(600 * kSecond, 30 * kSecond)) << pipeline.problem();
    EXPECT_TRUE(lost);
    EXPECT_EQ(pipeline.leftovers(), "");
  }
}

} // namespace
} // namespace troupe::sched::testing
