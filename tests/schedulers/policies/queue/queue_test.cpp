// Every queue policy against the contract of its kind, then each one's own idea.

#include "schedulers/core/hash.hpp"
#include "schedulers/policies/queue/fcfs.hpp"
#include "schedulers/policies/queue/sjf.hpp"
#include "schedulers/policies/queue/wait_bound.hpp"
#include "schedulers/policies/queue/weighted_fair.hpp"
#include "schedulers/policy/validate.hpp"
#include "tests/support/cluster_builder.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace troupe::sched::testing {
namespace {

std::unique_ptr<QueuePolicy> build(const std::string& name, std::int64_t bound_us = 0) {
  PolicySet set;
  set.kinds["queue"].policy = name;
  if (bound_us > 0) set.kinds["queue"].options.set("wait_bound.max_us", {bound_us, "p.toml:3"});
  auto built = builtins().build("queue", set);
  EXPECT_TRUE(built.ok());
  auto* policy = dynamic_cast<QueuePolicy*>(built->get());
  EXPECT_NE(policy, nullptr);
  static_cast<void>(built->release());
  return std::unique_ptr<QueuePolicy>(policy);
}

/// Requests with equal work: ids from 1, arrival = id.
std::vector<RequestView> queue_of(std::initializer_list<const char*> tenants) {
  std::vector<RequestView> waiting;
  for (const char* tenant : tenants) {
    RequestView view = request(waiting.size() + 1, 10);
    view.tenant_hash = hash64(tenant);
    view.work_ps = 1'000'000'000;
    waiting.push_back(view);
  }
  return waiting;
}

std::vector<std::uint32_t> order_of(QueuePolicy& policy, const std::vector<RequestView>& waiting,
                                    std::int64_t now_us = 0) {
  ContextBuilder builder;
  builder.now_us = now_us;
  const auto decision = policy.order(waiting, builder.context());
  EXPECT_TRUE(validate(decision, waiting).ok());
  return decision.value->positions;
}

void tell(QueuePolicy& policy, const RequestView& view, QueueEvent event) {
  ContextBuilder builder;
  policy.observe(view, event, builder.context());
}

// -- the contract of the kind
// ----------------------------------------------------------------------

class QueueKind : public ::testing::TestWithParam<std::tuple<const char*, std::int64_t>> {
protected:
  std::unique_ptr<QueuePolicy> make() const {
    return build(std::get<0>(GetParam()), std::get<1>(GetParam()));
  }
};

RequestView random_request(Rng& rng, std::uint64_t id) {
  static const std::array<std::string, 4> kTenants = {"", "a", "b", "c"};
  RequestView view = request(id, 1 + static_cast<std::int64_t>(rng.below(50)));
  view.arrival_us = static_cast<std::int64_t>(rng.below(20));
  view.work_ps = static_cast<std::int64_t>(rng.below(1'000'000'000));
  view.tenant_hash = hash64(kTenants[rng.below(4)]);
  return view;
}

// Random queues, random outcomes told: a permutation each time, the same one when asked again, and
// from a copy of the state the same as from the original.
TEST_P(QueueKind, OrdersAreRepeatablePermutations) {
  Rng rng(7);
  const auto policy = make();
  for (int round = 0; round < 200; ++round) {
    std::vector<RequestView> waiting;
    const std::uint64_t count = 1 + rng.below(12);
    for (std::uint64_t id = 1; id <= count; ++id)
      waiting.push_back(random_request(rng, id));
    for (const RequestView& view : waiting)
      tell(*policy, view, QueueEvent::entered);
    const std::int64_t now_us = static_cast<std::int64_t>(rng.below(40));
    const auto first = order_of(*policy, waiting, now_us);
    EXPECT_EQ(first, order_of(*policy, waiting, now_us));
    const auto copy = make();
    copy->import_state(policy->export_state());
    EXPECT_EQ(first, order_of(*copy, waiting, now_us));
    for (const std::uint32_t i : first) {
      tell(*policy, waiting[i], QueueEvent::served);
      if (rng.below(4) == 0) {
        tell(*policy, waiting[i], QueueEvent::returned);
        tell(*policy, waiting[i], QueueEvent::left);
      }
    }
  }
}

TEST_P(QueueKind, EqualRequestsGoById) {
  const auto policy = make();
  std::vector<RequestView> waiting = queue_of({"", "", "", ""});
  for (RequestView& view : waiting)
    view.arrival_us = 5;
  EXPECT_EQ(order_of(*policy, waiting, 100), (std::vector<std::uint32_t>{0, 1, 2, 3}));
}

TEST_P(QueueKind, ForeignStateIsIgnored) {
  const auto policy = make();
  for (const char* state : {"", "x", "-4\n", "1\n2 3 99999999999999 a\n", "1\n-2 3 1 a\n"})
    policy->import_state(state);
  EXPECT_EQ(order_of(*policy, queue_of({"", ""})), (std::vector<std::uint32_t>{0, 1}));
}

INSTANTIATE_TEST_SUITE_P(All, QueueKind,
                         ::testing::Combine(::testing::Values("fcfs", "sjf", "bucket", "slack",
                                                              "weighted_fair"),
                                            ::testing::Values(0, 30)));

// -- fcfs and sjf
// ------------------------------------------------------------------------------------

TEST(Queue, FcfsKeepsArrivalAndBreaksTiesById) {
  std::vector<RequestView> waiting = queue_of({"", "", "", ""});
  waiting[0].arrival_us = 30;
  waiting[1].arrival_us = 20;
  waiting[2].arrival_us = 20;
  waiting[3].arrival_us = 10;
  FcfsQueue fcfs;
  EXPECT_EQ(order_of(fcfs, waiting), (std::vector<std::uint32_t>{3, 1, 2, 0}));
}

TEST(Queue, SjfOrdersByRemainingWorkThenArrival) {
  std::vector<RequestView> waiting = queue_of({"", "", ""});
  waiting[0].work_ps = 50;
  waiting[1].work_ps = 10;
  waiting[2].work_ps = 10;
  waiting[1].arrival_us = 8;
  waiting[2].arrival_us = 7;
  SjfQueue sjf;
  EXPECT_EQ(order_of(sjf, waiting), (std::vector<std::uint32_t>{2, 1, 0}));
}

// -- weighted_fair
// -----------------------------------------------------------------------------------

// arrival   a a a a b b      order   a b a b a a
TEST(WeightedFair, BackloggedTenantsTakeTurnsWithinOneOrder) {
  WeightedFairQueue policy({});
  const auto waiting = queue_of({"a", "a", "a", "a", "b", "b"});
  for (const RequestView& view : waiting)
    tell(policy, view, QueueEvent::entered);
  EXPECT_EQ(order_of(policy, waiting), (std::vector<std::uint32_t>{0, 4, 1, 5, 2, 3}));
}

// Weight 2 for a:   a b a a b a a b ...   shares 2 : 1 up to one request.
TEST(WeightedFair, SharesFollowTheWeights) {
  WeightedFairQueue policy({.weights = {{hash64("a"), 2000}}});
  std::vector<RequestView> waiting;
  for (int i = 0; i < 30; ++i) {
    for (const char* tenant : {"a", "b"}) {
      RequestView view = queue_of({tenant})[0];
      view.ref = ref(waiting.size() + 1);
      waiting.push_back(view);
      tell(policy, view, QueueEvent::entered);
    }
  }
  std::int64_t a = 0;
  const auto order = order_of(policy, waiting);
  for (std::size_t i = 0; i < 30; ++i) {
    a += waiting[order[i]].tenant_hash == hash64("a");
    const auto served = static_cast<std::int64_t>(i) + 1;
    EXPECT_LE(std::abs(a * 3 - served * 2), 3) << "after " << served;
  }
}

// Policies.md section 8: two backlogged tenants, requests of 10 : 1 size; what they are served
// differs by at most two of the largest requests.
TEST(WeightedFair, UnequalSizesGetEqualWork) {
  WeightedFairQueue policy({});
  ContextBuilder builder;
  builder.model.sequence_ps = builder.model.context_token_ps = 0; // Prefill alone counts.
  constexpr std::int64_t kSmall = 1'000'000'000;
  std::vector<RequestView> waiting;
  for (std::uint64_t id = 1; id <= 220; ++id) {
    RequestView view = request(id, 10);
    view.tenant_hash = hash64(id <= 20 ? "large" : "small");
    view.work_ps = id <= 20 ? 10 * kSmall : kSmall;
    waiting.push_back(view);
    policy.observe(view, QueueEvent::entered, builder.context());
  }
  std::int64_t large = 0;
  std::int64_t small = 0;
  while (large < 100 * kSmall && small < 100 * kSmall) {
    const auto decision = policy.order(waiting, builder.context());
    const std::uint32_t next = decision.value->positions.front();
    EXPECT_EQ(decision.reason, Reason::fair_share);
    (waiting[next].tenant_hash == hash64("large") ? large : small) += waiting[next].work_ps;
    policy.observe(waiting[next], QueueEvent::served, builder.context());
    waiting.erase(waiting.begin() + next);
    EXPECT_LE(std::abs(large - small), 2 * 10 * kSmall);
  }
}

TEST(WeightedFair, NobodySavesUpWhileAway) {
  WeightedFairQueue policy({});
  const auto busy = queue_of({"a", "a", "a", "a", "a", "a", "a", "a"});
  for (const RequestView& view : busy)
    tell(policy, view, QueueEvent::entered);
  for (std::size_t i = 0; i < 4; ++i)
    tell(policy, busy[i], QueueEvent::served);
  // b comes back: level with a, not four requests ahead.
  const auto late = queue_of({"b", "b", "b", "b"});
  for (const RequestView& view : late)
    tell(policy, view, QueueEvent::entered);
  EXPECT_EQ(policy.counter(hash64("b")), policy.counter(hash64("a")));
}

TEST(WeightedFair, ARefusedAssignmentCostsNothingAndALaterAttemptNeither) {
  WeightedFairQueue policy({});
  RequestView view = queue_of({"a"})[0];
  tell(policy, view, QueueEvent::entered);
  const std::int64_t before = policy.counter(hash64("a"));
  tell(policy, view, QueueEvent::served);
  EXPECT_GT(policy.counter(hash64("a")), before);
  tell(policy, view, QueueEvent::returned);
  EXPECT_EQ(policy.counter(hash64("a")), before);
  view.ref = ref(1, 2);
  tell(policy, view, QueueEvent::served);
  EXPECT_EQ(policy.counter(hash64("a")), before) << "the tenant paid for the first attempt";
}

TEST(WeightedFair, KeepsABoundedNumberOfTenants) {
  WeightedFairQueue policy({});
  for (std::uint64_t id = 1; id <= 20'000; ++id) {
    const std::string tenant = "tenant " + std::to_string(id);
    RequestView view = request(id, 10);
    view.tenant_hash = hash64(tenant);
    view.work_ps = 1000;
    tell(policy, view, QueueEvent::entered);
    tell(policy, view, QueueEvent::served);
  }
  EXPECT_LE(policy.tenants(), 4096);
}

TEST(WeightedFair, HugeWorkDoesNotOverflow) {
  WeightedFairQueue policy({.weights = {{hash64("a"), 1}}});
  RequestView view = queue_of({"a"})[0];
  view.work_ps = std::numeric_limits<std::int64_t>::max();
  view.new_tokens_max = std::numeric_limits<std::int64_t>::max() / 2;
  for (std::uint64_t id = 1; id <= 100; ++id) {
    view.ref = ref(id);
    tell(policy, view, QueueEvent::entered);
    tell(policy, view, QueueEvent::served);
    EXPECT_GE(policy.counter(hash64("a")), 0);
  }
}

// -- wait_bound
// --------------------------------------------------------------------------------------

// bound 50, now 100      request     1   2   3   4
//                        arrival    40  90  60  45
//                        work       30  20  10  40
// sjf alone 3 2 1 4; beyond the bound are 1 and 4, the older one first.
TEST(WaitBound, WhoWaitedLongEnoughGoesFirstOldestBeforeTheOthers) {
  std::vector<RequestView> waiting = queue_of({"", "", "", ""});
  const std::array<std::int64_t, 4> arrival = {40, 90, 60, 45};
  const std::array<std::int64_t, 4> work = {30, 20, 10, 40};
  for (std::size_t i = 0; i < 4; ++i) {
    waiting[i].arrival_us = arrival[i];
    waiting[i].work_ps = work[i];
  }
  EXPECT_EQ(order_of(*build("sjf"), waiting, 100), (std::vector<std::uint32_t>{2, 1, 0, 3}));
  const auto bounded = build("sjf", 50);
  EXPECT_EQ(order_of(*bounded, waiting, 100), (std::vector<std::uint32_t>{0, 3, 2, 1}));
  EXPECT_EQ(order_of(*bounded, waiting, 89), (std::vector<std::uint32_t>{2, 1, 0, 3}));
  ContextBuilder builder;
  builder.now_us = 100;
  EXPECT_EQ(bounded->order(waiting, builder.context()).reason, Reason::waited_longest);
}

} // namespace
} // namespace troupe::sched::testing
