// Whoever says "not now" is asked again: at the time it names, within bounds, and after a swap.
//
// Stages run alone with their timers; nothing else happens to them.

#include "schedulers/stage/decode_stage.hpp"
#include "schedulers/stage/prefill_stage.hpp"
#include "schedulers/stage/retry_timer.hpp"
#include "tests/support/deferring_policies.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <vector>

namespace troupe::sched::testing {
namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kEver = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();

TEST(RetryTimer, EveryNamedTimeIsBounded) {
  constexpr std::int64_t kNow = 5 * kSecond;
  const auto wait_us = [](std::int64_t named_us) {
    return again_us(named_us, 10'000, kNow) - kNow;
  };
  EXPECT_EQ(wait_us(kNow + 20'000), 20'000);
  EXPECT_EQ(wait_us(kNow + 1), kAgainSoonestUs);
  EXPECT_EQ(wait_us(kNow + 2 * kSecond), kAgainLatestUs);
  EXPECT_EQ(wait_us(kEver), kAgainLatestUs);
  for (const std::int64_t past : {kNow, kNow - 1, std::int64_t{1}, std::int64_t{-1}, kNever})
    EXPECT_EQ(wait_us(past), 10'000) << past;
  EXPECT_EQ(again_us(-1, 0, kNow), kNow + kAgainSoonestUs) << "no pause makes nothing spin";
}

TEST(RetryTimer, TheEarliestCountsAndLaterOnesAreForgotten) {
  RetryTimer timer;
  Effects effects;
  timer.at(1'000, effects);
  timer.at(2'000, effects);
  EXPECT_EQ(timers(effects, TimerKind::retry).size(), 1U);
  timer.at(100, effects);
  EXPECT_EQ(timers(effects, TimerKind::retry).size(), 2U);
  EXPECT_TRUE(timer.fires(100));
  EXPECT_FALSE(timer.fires(1'000)) << "that one was overtaken";
  timer.at(5'000, effects);
  EXPECT_FALSE(timer.fires(2'000));
  EXPECT_TRUE(timer.fires(5'000));
}

/// One stage with its timers, in a set whose `kind` is policy "defers".
template <class Stage, class Options>
class Alone {
public:
  explicit Alone(const std::string& kind, Options options = {}) {
    register_builtin_policies(registry_);
    register_deferring(registry_, deferral);
    PolicySet set;
    set.epoch = PolicyEpoch{1};
    set.kinds[kind].policy = "defers";
    stage_ = std::make_unique<Stage>(options, set, registry_);
  }

  template <class E>
  Alone& on(const E& event) {
    effects.clear();
    stage_->on(event, now_us, effects);
    for (const SetTimer& timer : asked<SetTimer>(effects))
      due_.emplace(timer.due_us, Timer{timer.kind, timer.key});
    return *this;
  }
  /// Wakes the stage until `stop` is true of an event's effects, or `until_us`. Leases go on.
  bool wait(const std::function<bool(const Effects&)>& stop, std::int64_t until_us) {
    while (!due_.empty() && due_.begin()->first <= until_us) {
      const auto node = due_.extract(due_.begin());
      now_us = std::max(now_us, node.key());
      on(node.mapped());
      if (stop(effects)) return true;
    }
    now_us = until_us;
    return false;
  }
  /// All kinds by their defaults from here on.
  Alone& swap(bool is_live = false) {
    PolicySet set;
    set.epoch = PolicyEpoch{2};
    on(SwapPrepare{set, kSecond, is_live});
    return is_live ? *this : on(SwapCommit{set.epoch});
  }

  std::shared_ptr<Deferral> deferral = std::make_shared<Deferral>();
  Effects effects;
  std::int64_t now_us = 0;

private:
  PolicyRegistry registry_;
  std::unique_ptr<Stage> stage_;
  std::multimap<std::int64_t, Timer> due_;
};

using Balancer = Alone<DecodeStage, DecodeOptions>;
using Chunker = Alone<PrefillStage, PrefillOptions>;

bool reserves(const Effects& effects) { return !sent<Reserve>(effects).empty(); }
bool assigns(const Effects& effects) { return !sent<Assign>(effects).empty(); }
bool slices(const Effects& effects) { return !sent<RunChunks>(effects).empty(); }

PrefillDone finished(std::uint64_t id) {
  PrefillDone done;
  done.ref = ref(id);
  done.rank = rank_ref(0);
  done.positions = 8;
  done.positions_max = 16;
  done.answered = 1;
  done.new_tokens_max = 8;
  done.manifest = "manifest";
  return done;
}

void begin(Balancer& balancer) {
  balancer.on(up(0, Role::prefill)).on(up(2, Role::decode)).on(up(3, Role::decode));
  balancer.on(finished(1));
}

void begin(Chunker& chunker) {
  RankReport pull;
  pull.rank = rank_ref(0);
  pull.seq = pull.step_next = 1;
  pull.wants_chunks = true;
  pull.kv_blocks_free = pull.kv_blocks_total = 16;
  pull.slots_free = pull.slots_total = 4;
  Submit request;
  request.ref = ref(1);
  request.work = work(8, 4);
  chunker.on(up(0, Role::both)).on(pull).on(request);
}

void begin_assigned(Chunker& chunker) {
  begin(chunker);
  chunker.on(Assigned{ref(1), rank_ref(0)});
}

constexpr std::int64_t kYes = 3'050'000;

/// A yes at that time, whatever the policy names until then.
template <class Bench>
void yes_comes(const std::string& kind, bool (*answer)(const Effects&), void (*begin_it)(Bench&)) {
  const std::vector<std::int64_t> all = {kYes, kEver, kNever, -1, 1, kYes + 10 * kSecond};
  for (const std::int64_t named : all) {
    Bench bench(kind);
    bench.deferral->yes_from_us = [](std::int64_t, std::int64_t) { return kYes; };
    bench.deferral->named_us = [&](std::int64_t, std::int64_t) { return named; };
    begin_it(bench);
    EXPECT_FALSE(answer(bench.effects)) << kind;
    EXPECT_TRUE(bench.wait(answer, 20 * kSecond)) << kind << " named " << named;
    EXPECT_GE(bench.now_us, kYes);
    EXPECT_LE(bench.now_us, named == kYes ? kYes : kYes + kAgainLatestUs) << kind << " " << named;
    EXPECT_LE(bench.deferral->asked, 500) << kind << " named " << named;
  }
}

TEST(AskingAgain, ABalancerThatSaidNotNowIsAskedAtItsTime) {
  yes_comes<Balancer>("decode_balancer", reserves, begin);
}

TEST(AskingAgain, ARouterThatSaidNotNowIsAskedAtItsTime) {
  yes_comes<Chunker>("prefill_router", assigns, begin);
}

TEST(AskingAgain, AChunkerThatSaidNotNowIsAskedAtItsTime) {
  yes_comes<Chunker>("prefill_chunker", slices, begin_assigned);
}

TEST(AskingAgain, AHandoffPolicyIsAskedAtItsTimeThoughNoTransferEnds) {
  Balancer balancer("handoff");
  balancer.deferral->yes_from_us = [](std::int64_t, std::int64_t) { return 2 * kSecond; };
  begin(balancer);
  EXPECT_TRUE(reserves(balancer.effects)) << "nothing is under way";
  balancer.on(finished(2));
  EXPECT_FALSE(reserves(balancer.effects));
  EXPECT_TRUE(balancer.wait(reserves, 10 * kSecond));
  EXPECT_EQ(balancer.now_us, 2 * kSecond);
}

TEST(AskingAgain, APolicyThatNamesTheNextInstantCannotMakeAStageSpin) {
  Balancer balancer("decode_balancer");
  balancer.deferral->named_us = [](std::int64_t now_us, std::int64_t) { return now_us + 1; };
  begin(balancer);
  EXPECT_FALSE(balancer.wait(reserves, kSecond));
  EXPECT_LE(balancer.deferral->asked, kSecond / kAgainSoonestUs + 1);
}

// Request 2 is refused while the timer of request 1 is under way: its own pause ends later.
TEST(AskingAgain, EveryPauseEndsThoughAnEarlierTimerCounts) {
  Chunker chunker("handoff");
  chunker.on(up(0, Role::both));
  for (const std::uint64_t id : {1, 2}) {
    Submit request;
    request.ref = ref(id);
    request.work = work(8, 4);
    chunker.now_us = id == 1 ? 0 : 5'000;
    chunker.on(request);
    chunker.on(Refused{ref(id), rank_ref(0), {}, ErrorCode::no_room});
    if (id == 1) chunker.on(Cancel{ref(1), ErrorCode::cancelled});
  }
  EXPECT_FALSE(assigns(chunker.effects));
  EXPECT_TRUE(chunker.wait(assigns, kSecond));
  EXPECT_LE(chunker.now_us, 15'000);
}

TEST(AskingAgain, WithoutATimeAnyEventAsksAgain) {
  Balancer balancer("decode_balancer");
  balancer.deferral->named_us = [](std::int64_t, std::int64_t) { return 0; };
  begin(balancer);
  EXPECT_TRUE(timers(balancer.effects, TimerKind::retry).empty());
  const std::int64_t before = balancer.deferral->asked;
  balancer.on(finished(2));
  EXPECT_GT(balancer.deferral->asked, before);
}

// The set that held back goes: its successor answers at once, by a commit or by catching up.
TEST(AskingAgain, ASwapAsksTheNewSet) {
  for (const bool is_live : {false, true}) {
    Balancer balancer("decode_balancer");
    begin(balancer);
    EXPECT_FALSE(reserves(balancer.effects));
    EXPECT_TRUE(reserves(balancer.swap(is_live).effects)) << is_live;

    Balancer paced("handoff");
    begin(paced);
    paced.on(finished(2));
    EXPECT_FALSE(reserves(paced.effects));
    EXPECT_TRUE(reserves(paced.swap(is_live).effects)) << is_live;

    Chunker router("prefill_router");
    begin(router);
    EXPECT_FALSE(assigns(router.effects));
    EXPECT_TRUE(assigns(router.swap(is_live).effects)) << is_live;

    Chunker chunker("prefill_chunker");
    begin_assigned(chunker);
    EXPECT_FALSE(slices(chunker.effects));
    EXPECT_TRUE(slices(chunker.swap(is_live).effects)) << is_live;
  }
}

} // namespace
} // namespace troupe::sched::testing
