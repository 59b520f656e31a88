// Queue orders beyond first come, first served: policies.md section 1.6.

#include "schedulers/policies/queue/bucket.hpp"
#include "schedulers/policies/queue/slack.hpp"
#include "schedulers/policy/validate.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "tests/support/cluster_builder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace troupe::sched {
namespace {

using testing::ContextBuilder;
using testing::request;
using Positions = std::vector<std::uint32_t>;

constexpr std::int64_t kMs = 1'000'000'000; // In picoseconds.
constexpr std::int64_t kSecondUs = 1'000'000;

RequestView work(std::uint64_t id, std::int64_t ms, std::int64_t arrival_us) {
  RequestView view = request(id, 1);
  view.work_ps = ms * kMs;
  view.arrival_us = arrival_us;
  return view;
}

TEST(BucketQueue, BucketsOfWork) {
  const BucketOptions options;
  EXPECT_EQ(bucket_of(0, options), 0);
  EXPECT_EQ(bucket_of(50 * kMs, options), 0);
  EXPECT_EQ(bucket_of(50 * kMs + 1, options), 1);
  EXPECT_EQ(bucket_of(200 * kMs, options), 1);
  EXPECT_EQ(bucket_of(800 * kMs, options), 2);
  EXPECT_EQ(bucket_of(3200 * kMs, options), 3);
  EXPECT_EQ(bucket_of(3200 * kMs + 1, options), 4);
  EXPECT_LE(bucket_of(INT64_MAX, options), 32);
}

// k = 1: 0.5 s; 2: 4 s; 3: 24 s; 4: 128 s.
TEST(BucketQueue, EveryRequestReachesTheFirstBucketInTime) {
  const BucketOptions options;
  const std::int64_t bounds_us[] = {0, kSecondUs / 2, 4 * kSecondUs, 24 * kSecondUs,
                                    128 * kSecondUs};
  for (std::int64_t k = 1; k <= 4; ++k) {
    EXPECT_EQ(bucket_after(k, bounds_us[k], options), 0) << k;
    EXPECT_EQ(bucket_after(k, bounds_us[k] - 1, options), 1) << k;
    EXPECT_EQ(bucket_after(k, -5, options), k) << "a clock that lies behind ages nothing";
  }
}

//   now 1 s: the long one of bucket 2 came at 0, short ones at 0.9 and 0.95 s. It is worth less
//   than one step (2 s) and waits; at 4 s it is in bucket 0 and the oldest there.
TEST(BucketQueue, ShortOnesFirstUntilTheLongOneIsOldEnough) {
  ContextBuilder builder;
  BucketQueue policy({});
  const std::vector<RequestView> waiting = {work(1, 700, 0), work(2, 10, 950'000),
                                            work(3, 40, 900'000), work(4, 150, 100'000)};
  builder.now_us = 500'000;
  EXPECT_EQ(policy.order(waiting, builder.context()).value->positions, (Positions{2, 1, 3, 0}));
  builder.now_us = 4 * kSecondUs;
  const auto late = policy.order(waiting, builder.context());
  EXPECT_EQ(late.value->positions, (Positions{0, 3, 2, 1}));
  EXPECT_TRUE(validate(late, waiting).ok());
}

TEST(SlackQueue, RelativeToTheLengthOfTheRequest) {
  ContextBuilder builder;
  builder.model = {0, kMs, 0, 0, 1, 1}; // 1 ms a token.
  SlackQueue policy({.slowdown_permille = 5000});
  // 10 ms of service, due at 50; 100 ms of service, due at 500; both came at 0.
  std::vector<RequestView> waiting = {request(1, 100), request(2, 10)};
  for (RequestView& view : waiting)
    view.arrival_us = 0;
  // Slack 4 and 4 at the start: by arrival, then by id. Later the short one runs out first.
  EXPECT_EQ(policy.order(waiting, builder.context()).value->positions, (Positions{0, 1}));
  builder.now_us = 1000;
  EXPECT_EQ(policy.order(waiting, builder.context()).value->positions, (Positions{1, 0}));
  // A long one that waited for 350 ms is before a short one that just came.
  waiting[1].arrival_us = builder.now_us = 350'000;
  EXPECT_EQ(policy.order(waiting, builder.context()).value->positions, (Positions{0, 1}));
  // A deadline of its own replaces the slowdown.
  waiting[1].deadline_us = 361'000;
  EXPECT_EQ(policy.order(waiting, builder.context()).value->positions, (Positions{1, 0}));
}

// The bars of section 10 on one server: orders with aging keep the longest wait of long requests
// below 0.55 of that of shortest first, and the p99 of short ones below 0.15 of first come.
struct Waits {
  double short_p99 = 0, long_max = 0;
};

Waits serve(const std::string& policy_name) {
  PolicyRegistry registry;
  register_builtin_policies(registry);
  PolicySet set;
  set.kinds["queue"].policy = policy_name;
  const auto policy = registry.build("queue", set).value();
  auto* queue = dynamic_cast<QueuePolicy*>(policy.get());
  ContextBuilder builder;
  builder.model = {0, kMs, 0, 0, 1, 1};
  Rng rng(3);
  std::vector<RequestView> waiting;
  std::vector<double> short_waits;
  Waits waits;
  std::int64_t next_us = 0;
  std::uint64_t id = 0;
  // One request at a time; 3 % are long (1 to 6 s), the others 10 to 50 ms: 0.95 of what it can do.
  while (id < 20'000 || !waiting.empty()) {
    while (id < 20'000 && next_us <= builder.now_us) {
      const std::int64_t tokens = rng.below(100) < 3
                                      ? 1000 + static_cast<std::int64_t>(rng.below(5001))
                                      : 10 + static_cast<std::int64_t>(rng.below(41));
      waiting.push_back(request(++id, tokens));
      waiting.back().arrival_us = next_us;
      waiting.back().work_ps = tokens * kMs;
      next_us += static_cast<std::int64_t>(rng.below(2 * 141'000));
    }
    if (waiting.empty()) {
      builder.now_us = next_us;
      continue;
    }
    const auto first = queue->order(waiting, builder.context()).value->positions[0];
    const RequestView chosen = waiting[first];
    waiting.erase(waiting.begin() + first);
    const double waited_s = static_cast<double>(builder.now_us - chosen.arrival_us) / 1e6;
    if (chosen.prompt >= 1000) {
      waits.long_max = std::max(waits.long_max, waited_s);
    } else {
      short_waits.push_back(waited_s);
    }
    builder.now_us += chosen.prompt * 1000;
  }
  std::sort(short_waits.begin(), short_waits.end());
  waits.short_p99 = short_waits[short_waits.size() * 99 / 100];
  std::printf("%-8s short p99 %.2f s, long max %.2f s\n", policy_name.c_str(), waits.short_p99,
              waits.long_max);
  return waits;
}

TEST(QueueOrders, AgingBoundsTheWorstWait) {
  std::printf("seed 3\n");
  const Waits fcfs = serve("fcfs");
  const Waits sjf = serve("sjf");
  const Waits bucket = serve("bucket");
  const Waits slack = serve("slack");
  for (const Waits& ours : {bucket, slack}) {
    EXPECT_LE(ours.short_p99, 0.15 * fcfs.short_p99);
    EXPECT_LE(ours.long_max, 0.55 * sjf.long_max);
  }
}

// Every policy of the kind.
TEST(QueueOrders, PermutationsOfWhateverWaits) {
  std::printf("seed 53\n");
  PolicyRegistry registry;
  register_builtin_policies(registry);
  for (const std::string& name : registry.names("queue")) {
    SCOPED_TRACE(name);
    PolicySet set;
    set.kinds["queue"].policy = name;
    const auto one = registry.build("queue", set).value();
    const auto two = registry.build("queue", set).value();
    Rng rng(53);
    for (int round = 0; round < 300; ++round) {
      std::vector<RequestView> waiting;
      for (std::uint64_t i = 0; i < rng.below(12); ++i) {
        waiting.push_back(request(i, 1 + static_cast<std::int64_t>(rng.below(5000))));
        waiting.back().arrival_us = static_cast<std::int64_t>(rng.below(5)) * 100'000;
        waiting.back().work_ps = static_cast<std::int64_t>(rng.below(1ULL << rng.below(50)));
        waiting.back().deadline_us = static_cast<std::int64_t>(rng.below(3)) * 700'000;
      }
      ContextBuilder builder;
      builder.now_us = static_cast<std::int64_t>(rng.below(1'000'000));
      const auto a = dynamic_cast<QueuePolicy&>(*one).order(waiting, builder.context());
      const auto b = dynamic_cast<QueuePolicy&>(*two).order(waiting, builder.context());
      ASSERT_TRUE(validate(a, waiting).ok());
      ASSERT_EQ(a.value->positions, b.value->positions);
    }
    set.kinds["queue"].options.set("no_such_option", {std::int64_t{1}, "p.toml:3"});
    EXPECT_EQ(registry.build("queue", set).error().code, ErrorCode::unknown_key);
  }
}

} // namespace
} // namespace troupe::sched
