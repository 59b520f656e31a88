// A manager and the desks of real policies over a network that delays, loses, repeats and reorders,
// while ranks die and come back: a set goes live as a whole, everybody ends on the same one, and
// every ask ends once.
//
// Seeds are fixed; TROUPE_SEEDS=A..B gives others.

#include "schedulers/core/rng.hpp"
#include "schedulers/stage/manager_stage.hpp"
#include "schedulers/stage/slot_pack.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/policy_sets.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe::sched::testing {
namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kTroubleUs = 60 * kSecond; ///< Then the network is whole again.
constexpr std::int64_t kEndUs = 200 * kSecond;

/// What a network does to messages, out of a thousand.
struct Network {
  std::uint64_t lost = 0;
  std::uint64_t repeated = 0;
  std::int64_t delay_us_max = 1000;
};

/// A stage: the desk of its kind, whatever its type.
class Desk {
public:
  virtual ~Desk() = default;
  virtual void take(const Message& message, std::int64_t now_us, Effects& effects) = 0;
  virtual void wake(const Timer& timer, std::int64_t now_us) = 0;
  virtual void announce(Effects& effects) const = 0;
  /// Decides something, and adds the record.
  virtual void decide(std::uint64_t seed, Effects& effects) = 0;
  virtual PolicyEpoch epoch() const = 0;
};

template <class Slots>
class DeskOf final : public Desk {
public:
  DeskOf(StageRef stage, const PolicySet& set) : desk_(stage, set, builtins()) {}

  void take(const Message& message, std::int64_t now_us, Effects& effects) override {
    if (const auto* prepare = std::get_if<SwapPrepare>(&message)) {
      desk_.on(*prepare, now_us, effects);
    } else if (const auto* commit = std::get_if<SwapCommit>(&message)) {
      desk_.on(*commit, now_us, effects);
    } else if (const auto* abort = std::get_if<SwapAbort>(&message)) {
      desk_.on(*abort);
    } else {
      ADD_FAILURE() << "a stage got a message of another kind";
    }
  }
  void wake(const Timer& timer, std::int64_t now_us) override { desk_.on(timer, now_us); }
  void announce(Effects& effects) const override { desk_.announce(effects); }
  void decide(std::uint64_t seed, Effects& effects) override {
    if constexpr (std::is_same_v<Slots, DecodeSlots>) {
      decide_as(balancer_question(3, seed), effects);
      decide_as(handoff_question(), effects);
    } else if constexpr (std::is_same_v<Slots, PrefillSlots>) {
      QueueQuestion question;
      question.waiting = {handoff_question().query.request};
      decide_as(std::move(question), effects);
    } else if constexpr (std::is_same_v<Slots, DriverSlots>) {
      decide_as(AdmissionQuestion{}, effects);
    } else {
      StepQuestion question;
      question.decodes = {{ref(1), 5}};
      decide_as(std::move(question), effects);
    }
  }
  PolicyEpoch epoch() const override { return desk_.epoch(); }

private:
  template <class Question>
  void decide_as(Question question, Effects& effects) {
    auto& slot = desk_->template of<Question>();
    std::int64_t invalid = 0;
    const auto answered = slot.decide(std::move(question), invalid);
    EXPECT_EQ(answered.question().context.epoch, desk_.epoch());
    effects.add(slot.record(answered));
  }

  SlotDesk<Slots> desk_;
};

class World {
public:
  World(std::uint64_t seed, const Network& network)
      : rng_(seed), network_(network), manager_({}, PolicySet{}, 0) {
    Effects effects;
    manager_.start(0, effects);
    perform(effects, std::nullopt);
    add<DriverSlots>({StageKind::driver, {}});
    add<PrefillSlots>({StageKind::prefill, {}});
    add<DecodeSlots>({StageKind::decode, {}});
    for (std::uint32_t rank = 0; rank < 3; ++rank)
      begin_life(rank);
    for (int i = 0; i < 25; ++i)
      plan(below(kTroubleUs), [this] { ask(); });
    for (int i = 0; i < 12; ++i)
      plan(below(kTroubleUs), [this] { end_life(static_cast<std::uint32_t>(rng_.below(3))); });
    for (std::int64_t at_us = 0; at_us < kEndUs; at_us += kSecond / 4)
      plan(at_us, [this] { decide_all(); });
  }

  void run() {
    while (!agenda_.empty() && agenda_.begin()->first.first <= kEndUs) {
      const auto node = agenda_.extract(agenda_.begin());
      now_us_ = node.key().first;
      node.mapped()();
    }
  }

  void check() const {
    for (const auto& [question, times] : ended_)
      EXPECT_EQ(times, 1) << "ask " << question;
    EXPECT_EQ(ended_.size(), asked_) << "an ask has no end";
    for (const auto& [stage, desk] : desks_)
      EXPECT_EQ(desk->epoch(), manager_.live().epoch) << stage_text(stage);
    EXPECT_GT(decisions_, 1000);
  }

  std::int64_t swaps() const { return swaps_; }
  std::int64_t refused() const { return refused_; }

private:
  using Task = std::function<void()>;

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(n)));
  }
  void plan(std::int64_t at_us, Task task) {
    agenda_.emplace(std::pair{at_us, serial_++}, std::move(task));
  }

  template <class Slots>
  void add(const StageRef& stage) {
    Desk& desk = *(desks_[stage] = std::make_unique<DeskOf<Slots>>(stage, manager_.live()));
    live_on_[stage] = desk.epoch();
    Effects effects;
    desk.announce(effects);
    // A life announces itself once, reliably, as it does to everybody.
    for (Effect& effect : effects.list()) {
      plan(now_us_ + 1 + below(network_.delay_us_max),
           [this, send = std::get<Send>(effect)] { deliver(send); });
    }
  }

  void begin_life(std::uint32_t rank) {
    add<RankSlots>({StageKind::rank, rank_ref(rank, ++lives_[rank])});
  }

  /// The desk goes; the supervisor tells the manager, reliably, as it is in its process.
  void end_life(std::uint32_t rank) {
    const RankRef life = rank_ref(rank, lives_[rank]);
    if (desks_.erase({StageKind::rank, life}) == 0) return; // Between two lives.
    plan(now_us_ + below(kSecond / 100), [this, life] { tell(RankDown{life, {}, true}); });
    plan(now_us_ + below(kSecond / 10), [this, rank] { begin_life(rank); });
  }

  void ask() {
    static const std::vector<PolicySet> kSets{
        set_of("a", {{"decode_balancer", "round_robin"}, {"queue", "weighted_fair"}}),
        set_of("b", {{"decode_balancer", "random"}, {"step", "prefill_first"}}),
        set_of("c", {{"admission", "always"}}), set_of("broken", {{"handoff", "nobody"}})};
    const std::uint64_t question = ++asked_;
    const std::uint64_t which = rng_.below(6);
    if (which == 5) {
      tell(RollbackAsked{question, {}});
    } else {
      tell(SwapAsked{question, kSets[std::min<std::uint64_t>(which, 3)], SwapCause::command, {}});
    }
  }

  /// Every stage decides, always by the set that it said last was live on it.
  void decide_all() {
    for (const auto& [stage, desk] : desks_) {
      Effects effects;
      desk->decide(rng_.bits(), effects);
      perform(effects, stage);
    }
  }

  template <class Event>
  void tell(const Event& event) {
    Effects effects;
    manager_.on(event, now_us_, effects);
    given_.insert(manager_.live().epoch);
    perform(effects, std::nullopt);
    for (const SwapEnded& one : manager_.take_ended()) {
      if (one.question != 0) ++ended_[one.question];
      ++(one.ok ? swaps_ : refused_);
      EXPECT_TRUE(!one.ok || one.epoch == manager_.live().epoch);
    }
  }

  /// @param from  none for the manager
  void perform(Effects& effects, const std::optional<StageRef>& from) {
    for (Effect& effect : effects.list()) {
      if (const auto* timer = std::get_if<SetTimer>(&effect)) {
        plan(timer->due_us, [this, from, timer = Timer{timer->kind, timer->key}] {
          if (!from) return tell(timer);
          if (const auto desk = desks_.find(*from); desk != desks_.end()) {
            desk->second->wake(timer, now_us_);
          }
        });
      } else if (const auto* record = std::get_if<Record>(&effect)) {
        ++decisions_;
        EXPECT_EQ(record->epoch, live_on_.at(*from)) << stage_text(*from) << " at " << now_us_;
        EXPECT_TRUE(given_.count(record->epoch) != 0) << "never live: " << raw(record->epoch);
      } else if (auto* send = std::get_if<Send>(&effect)) {
        if (from) note_switch(*from, send->message);
        carry(std::move(*send));
      }
    }
  }

  void note_switch(const StageRef& from, const Message& message) {
    const auto* committed = std::get_if<Committed>(&message);
    if (committed == nullptr) return;
    EXPECT_GE(committed->epoch, live_on_.at(from)) << "epochs of a stage only grow";
    live_on_[from] = committed->epoch;
  }

  void carry(Send send) {
    const bool trouble = now_us_ < kTroubleUs;
    if (trouble && rng_.below(1000) < network_.lost) return;
    const int copies = trouble && rng_.below(1000) < network_.repeated ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      plan(now_us_ + 1 + below(network_.delay_us_max), [this, send] { deliver(send); });
    }
  }

  void deliver(const Send& send) {
    if (send.to == Peer::manager) {
      std::visit(
          [this](const auto& message) {
            if constexpr (requires(Effects e) { manager_.on(message, now_us_, e); }) tell(message);
          },
          send.message);
      return;
    }
    for (auto& [stage, desk] : desks_) {
      if (!is_for(send, stage)) continue;
      Effects effects;
      desk->take(send.message, now_us_, effects);
      perform(effects, stage);
      return;
    }
  }

  static bool is_for(const Send& send, const StageRef& stage) {
    switch (send.to) {
    case Peer::driver:
      return stage.kind == StageKind::driver;
    case Peer::chunker:
      return stage.kind == StageKind::prefill;
    case Peer::balancer:
      return stage.kind == StageKind::decode;
    default:
      return stage.kind == StageKind::rank && stage.rank.rank == send.rank;
    }
  }

  Rng rng_;
  Network network_;
  ManagerStage manager_;
  std::map<StageRef, std::unique_ptr<Desk>> desks_;
  std::map<StageRef, PolicyEpoch> live_on_; ///< What each stage said last.
  std::set<PolicyEpoch> given_{PolicyEpoch{1}};
  std::map<std::uint32_t, std::uint32_t> lives_;
  std::map<std::pair<std::int64_t, std::uint64_t>, Task> agenda_; ///< By time, then in order.
  std::uint64_t serial_ = 0;
  std::int64_t now_us_ = 0;
  std::uint64_t asked_ = 0;
  std::map<std::uint64_t, int> ended_;
  std::int64_t swaps_ = 0, refused_ = 0, decisions_ = 0;
};

constexpr std::int64_t kSeeds = test::times(60);

/// Runs the seeds; returns how many swaps were made and refused.
std::pair<std::int64_t, std::int64_t> run_all(const Network& network) {
  const test::Seeds seeds = test::seeds_or(1, kSeeds);
  std::cout << "seed " << seeds.first << ".." << seeds.last << "\n";
  std::pair<std::int64_t, std::int64_t> totals{0, 0};
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed, network);
    world.run();
    world.check();
    totals.first += world.swaps();
    totals.second += world.refused();
    if (::testing::Test::HasFailure()) break;
  }
  std::cout << totals.first << " swaps, " << totals.second << " refused\n";
  return totals;
}

TEST(SwapSim, AQuickNetworkWithoutLoss) {
  const auto [made, refused] = run_all({});
  EXPECT_GT(made, kSeeds * 10);
  EXPECT_GT(refused, kSeeds * 2) << "broken sets, and rollbacks from the compiled-in one";
}

// Messages overtake each other by up to a second, more than the manager waits before it repeats.
TEST(SwapSim, ASlowNetworkThatReorders) { EXPECT_GT(run_all({0, 0, kSecond}).first, kSeeds); }

TEST(SwapSim, ANetworkThatRepeats) { EXPECT_GT(run_all({0, 300, kSecond / 2}).first, kSeeds); }

TEST(SwapSim, ANetworkThatLosesRepeatsAndReorders) {
  EXPECT_GT(run_all({60, 100, kSecond / 2}).first, kSeeds);
}

} // namespace
} // namespace troupe::sched::testing
