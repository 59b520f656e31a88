// All event orders of two handoffs over 2 prefill and 2 decode ranks, with one fault anywhere.
//
// Messages to a rank are delivered at once: what a rank does meets nobody else until its answer is
// delivered, and the order of answers and engine events is what is enumerated. Time moves only when
// nothing is under way. In the end every request is answered or given back to the driver, and no
// rank holds anything.

#include "schedulers/stage/event.hpp"
#include "tests/support/exhaustive.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <set>

namespace troupe::sched::testing {
namespace {

enum class Fault { none, lose_to_balancer, lose_to_rank, fail_transfer, rank_down, cancel };

constexpr std::uint32_t kRanks = 4; // 0, 1 prefill; 2, 3 decode.
constexpr std::int64_t kLimitUs = 400'000'000;

class World {
public:
  World(Fault fault, troupe::testing::Choices& choices)
      : fault_(fault), fault_left_(fault != Fault::none), choices_(choices),
        balancer_(decode_options(), PolicySet{}, builtins()) {
    for (std::uint32_t i = 0; i < kRanks; ++i) {
      RankOptions options;
      options.rank = rank_ref(i);
      options.role = i < 2 ? Role::prefill : Role::decode;
      options.kv_blocks = 4; // A decode rank holds one of the two requests and a bit.
      options.block_tokens = 4;
      options.slots = 2;
      ranks_[i] = std::make_unique<RankStage>(options, PolicySet{}, builtins());
      Effects effects;
      balancer_.on(up(i, options.role, options.kv_blocks, options.slots), 0, effects);
    }
    for (std::uint32_t i = 0; i < 2; ++i)
      prefill(i, ref(i + 1));
  }

  void run() {
    while (now_us_ < kLimitUs) {
      if (!step() && !advance()) return;
    }
  }

  std::string verdict() const {
    for (std::uint32_t i = 0; i < kRanks; ++i) {
      if (ranks_[i] == nullptr) continue;
      if (!ranks_[i]->check().ok()) return "accounts of rank " + std::to_string(i) + " broke";
      if (ranks_[i]->sequences() != 0) return "rank " + std::to_string(i) + " holds a sequence";
    }
    const DecodeCounts& counts = balancer_.counts();
    if (counts.waiting + counts.handing_off + counts.decoding != 0) {
      return "the balancer still has a request";
    }
    for (const RequestRef& r : {ref(1), ref(2)}) {
      const bool answered = tokens_.count({r, 1}) != 0;
      const bool back = given_back_.count(r) != 0;
      if (r == cancelled_) continue;
      if (!answered && !back) return "a request is neither answered nor given back";
      if (fault_ == Fault::none && (!answered || back)) return "a request failed without fault";
    }
    return {};
  }

  std::int64_t retried() const { return balancer_.counts().retried; }

private:
  static DecodeOptions decode_options() {
    DecodeOptions options;
    options.handoff_timeout_us = 3'000'000;
    return options;
  }

  /// Brings one request to the end of its prefill; its PrefillDone is the first event of the run.
  void prefill(std::uint32_t rank, const RequestRef& r) {
    RankStage& stage = *ranks_[rank];
    Effects effects;
    stage.start(0, effects);
    stage.on(Assign{r, rank_ref(rank), work(6, 2)}, 0, effects);
    stage.on(RunChunks{rank_ref(rank), 1, {{r, 0, 6, true}}}, 0, effects);
    StepRow row{r, ErrorCode::ok, 6, true, {}};
    stage.on(StepDone{1, ErrorCode::ok, 1, {row}}, 0, effects);
    effects.clear();
    stage.on(Exported{r, ErrorCode::ok, "m"}, 0, effects);
    perform(effects, rank);
  }

  void perform(Effects& effects, std::uint32_t rank) {
    std::vector<Effect> list = std::move(effects.list());
    effects.clear();
    for (const Effect& effect : list) {
      if (const auto* send = std::get_if<Send>(&effect)) {
        if (send->to == Peer::balancer) {
          to_balancer_[rank].push_back(
              std::visit([](const auto& m) { return Event(m); }, send->message));
        } else if (send->to == Peer::driver) {
          to_driver(send->message);
        }
      } else if (const auto* timer = std::get_if<SetTimer>(&effect)) {
        timers_.emplace(timer->due_us, std::make_pair(rank, Timer{timer->kind, timer->key}));
      } else if (const auto* step = std::get_if<RunStep>(&effect)) {
        StepDone done{step->step, ErrorCode::ok, 1, {}};
        for (const StepEntry& entry : step->entries) {
          done.rows.push_back(
              {entry.ref, ErrorCode::ok, entry.first_position + entry.count, entry.draw, {}});
        }
        engine_[rank].push_back(done);
      } else if (const auto* wanted = std::get_if<ImportSequence>(&effect)) {
        engine_[rank].push_back(Imported{wanted->pull.ref, wanted->pull.handoff, ErrorCode::ok,
                                         Digest{1, raw(wanted->pull.ref.request)}, "", 6, 1, 2});
      }
    }
  }

  void to_driver(const Message& message) {
    if (const auto* tokens = std::get_if<Tokens>(&message)) {
      for (const TokenRow& row : tokens->rows)
        tokens_.insert({row.ref, row.index});
    } else if (const auto* ended = std::get_if<Ended>(&message)) {
      given_back_.insert(ended->ref);
      // As the driver does: the attempt is over everywhere.
      pending_cancels_.push_back(ended->ref);
    }
  }

  void perform_balancer(Effects& effects) {
    std::vector<Effect> list = std::move(effects.list());
    effects.clear();
    for (const Effect& effect : list) {
      if (const auto* send = std::get_if<Send>(&effect)) {
        if (send->to == Peer::driver) to_driver(send->message);
        if (send->to == Peer::rank) to_rank(*send);
      } else if (const auto* timer = std::get_if<SetTimer>(&effect)) {
        timers_.emplace(timer->due_us, std::make_pair(kRanks, Timer{timer->kind, timer->key}));
      }
    }
    while (!pending_cancels_.empty()) {
      const RequestRef r = pending_cancels_.front();
      pending_cancels_.pop_front();
      Effects more;
      balancer_.on(Cancel{r, ErrorCode::ok}, now_us_, more);
      perform_balancer(more);
    }
  }

  void to_rank(const Send& send) {
    const std::uint32_t rank = raw(send.rank);
    // A Renew is lost without anyone noticing as long as the next one comes: not enumerated.
    const bool renew = std::holds_alternative<Renew>(send.message);
    if (fault_ == Fault::lose_to_rank && fault_left_ && !renew && choices_.below(2) == 1) {
      fault_left_ = false;
      return;
    }
    if (ranks_[rank] == nullptr) return;
    Effects effects;
    deliver(*ranks_[rank], std::visit([](const auto& m) { return Event(m); }, send.message),
            now_us_, effects);
    perform(effects, rank);
  }

  /// One event under way, chosen; false when there is none.
  bool step() {
    std::vector<std::pair<int, std::uint32_t>> options; // (0 answer, 1 engine, 2 fault), rank
    for (std::uint32_t i = 0; i < kRanks; ++i) {
      if (!to_balancer_[i].empty()) options.push_back({0, i});
      if (!engine_[i].empty()) options.push_back({1, i});
    }
    if (options.empty()) return false;
    if (fault_left_) add_faults(options);
    const auto [what, rank] = options[choices_.below(static_cast<std::uint32_t>(options.size()))];
    Effects effects;
    if (what == 0) {
      const Event event = to_balancer_[rank].front();
      to_balancer_[rank].pop_front();
      deliver(balancer_, event, now_us_, effects);
      perform_balancer(effects);
    } else if (what == 1) {
      const Event event = engine_[rank].front();
      engine_[rank].pop_front();
      deliver(*ranks_[rank], event, now_us_, effects);
      perform(effects, rank);
    } else {
      fault_left_ = false;
      strike(rank);
    }
    return true;
  }

  void add_faults(std::vector<std::pair<int, std::uint32_t>>& options) {
    for (std::uint32_t i = 0; i < kRanks; ++i) {
      // A report is lost only with its connection.
      const bool lossy =
          !to_balancer_[i].empty() && !std::holds_alternative<RankReport>(to_balancer_[i].front());
      if (fault_ == Fault::lose_to_balancer && lossy) options.push_back({2, i});
      if (fault_ == Fault::fail_transfer && !engine_[i].empty() &&
          std::holds_alternative<Imported>(engine_[i].front())) {
        options.push_back({2, i});
      }
      // By symmetry one of the sources and one of the targets stand for both.
      if (fault_ == Fault::rank_down && i % 2 == 0) options.push_back({2, i});
    }
    if (fault_ == Fault::cancel) options.push_back({2, 0});
  }

  void strike(std::uint32_t rank) {
    if (fault_ == Fault::lose_to_balancer) {
      to_balancer_[rank].pop_front();
    } else if (fault_ == Fault::fail_transfer) {
      auto& imported = std::get<Imported>(engine_[rank].front());
      imported.code = ErrorCode::transfer_failed;
    } else if (fault_ == Fault::rank_down) {
      ranks_[rank].reset();
      engine_[rank].clear();
      Effects effects;
      balancer_.on(RankDown{rank_ref(rank), ErrorCode::rank_lost}, now_us_, effects);
      perform_balancer(effects);
    } else {
      cancelled_ = ref(1);
      Effects effects;
      balancer_.on(Cancel{ref(1), ErrorCode::cancelled}, now_us_, effects);
      perform_balancer(effects);
    }
  }

  /// The next timer; false when none is left.
  bool advance() {
    if (timers_.empty()) return false;
    const auto [due_us, item] = *timers_.begin();
    timers_.erase(timers_.begin());
    now_us_ = std::max(now_us_, due_us);
    Effects effects;
    if (item.first == kRanks) {
      balancer_.on(item.second, now_us_, effects);
      perform_balancer(effects);
    } else if (ranks_[item.first] != nullptr &&
               item.second.kind != TimerKind::pull_again) { // Nobody answers pulls here.
      ranks_[item.first]->on(item.second, now_us_, effects);
      perform(effects, item.first);
    }
    return true;
  }

  Fault fault_;
  bool fault_left_;
  troupe::testing::Choices& choices_;
  DecodeStage balancer_;
  std::array<std::unique_ptr<RankStage>, kRanks> ranks_;
  std::array<std::deque<Event>, kRanks> to_balancer_;
  std::array<std::deque<Event>, kRanks> engine_;
  std::multimap<std::int64_t, std::pair<std::uint32_t, Timer>> timers_;
  std::set<std::pair<RequestRef, std::int64_t>> tokens_;
  std::set<RequestRef> given_back_;
  std::deque<RequestRef> pending_cancels_;
  RequestRef cancelled_;
  std::int64_t now_us_ = 0;
};

void enumerate(Fault fault, const char* name, bool expect_retries) {
  troupe::testing::Choices choices;
  std::int64_t runs = 0;
  std::int64_t retried = 0;
  do {
    World world(fault, choices);
    world.run();
    const std::string verdict = world.verdict();
    retried += world.retried();
    ++runs;
    ASSERT_EQ(verdict, "") << "choices " << choices.text();
  } while (choices.next());
  std::printf("%s: %lld orders, %lld tries repeated\n", name, static_cast<long long>(runs),
              static_cast<long long>(retried));
  EXPECT_GT(runs, 100);
  EXPECT_EQ(retried > 0, expect_retries);
}

TEST(HandoffExhaustive, NoFault) { enumerate(Fault::none, "no fault", false); }
TEST(HandoffExhaustive, OneAnswerLost) {
  enumerate(Fault::lose_to_balancer, "one answer lost", true);
}
TEST(HandoffExhaustive, OneOrderLost) { enumerate(Fault::lose_to_rank, "one order lost", true); }
TEST(HandoffExhaustive, OneTransferFails) {
  enumerate(Fault::fail_transfer, "one transfer fails", true);
}
TEST(HandoffExhaustive, OneRankGoesDown) { enumerate(Fault::rank_down, "one rank down", true); }
TEST(HandoffExhaustive, OneCancel) { enumerate(Fault::cancel, "one cancel", false); }

} // namespace
} // namespace troupe::sched::testing
