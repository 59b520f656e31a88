#include "schedulers/stage/manager_stage.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

namespace troupe::sched {
namespace {

constexpr std::size_t kAsksMax = 16; ///< Swaps that wait for the one under way.
constexpr std::int64_t kFaultWindowUs = 60'000'000;
constexpr std::int64_t kProbationWindowsMax = 10;   ///< Then too few requests are no objection.
constexpr std::int64_t kQuietWindowUs = 30'000'000; ///< Of a set without a probation.

/// A swap between its first SwapPrepare and its last Committed.
struct Pending {
  SwapAsked ask;
  bool committing = false;
  std::set<StageRef> silent; ///< Have not answered Prepare, or Commit.
  std::int64_t due_us = 0;   ///< Of this phase.
};

struct Ask {
  SwapAsked swap;
  std::int64_t due_us = 0;
};

} // namespace

std::string_view swap_cause_name(SwapCause cause) noexcept {
  switch (cause) {
  case SwapCause::start:
    return "start";
  case SwapCause::file:
    return "file";
  case SwapCause::command:
    return "command";
  case SwapCause::rollback:
    break;
  }
  return "rollback";
}

struct ManagerStage::State {
  ManagerOptions options;
  std::vector<SetHistory> history;
  PolicyEpoch newest{}; ///< Highest epoch ever given.
  std::map<StageRef, PolicyEpoch> stages;
  std::optional<Pending> pending;
  std::deque<Ask> asks;
  std::vector<SwapEnded> ended;
  std::vector<FaultTotal> faults;
  std::deque<std::int64_t> fault_times_us;
  LatencyWindow window;
  std::optional<PastWindow> past;   ///< The last one that was long enough.
  std::optional<PastWindow> before; ///< Of the last set that passed, when the live one has not.
  std::uint64_t window_serial = 0;
  std::int64_t windows_seen = 0;
  std::uint64_t swap_serial = 0;

  State(const ManagerOptions& given, PolicySet first, std::int64_t now_us)
      : options(given), newest(first.epoch), window(now_us) {
    history.push_back({std::move(first), now_us, 0, SwapCause::start, {}, true});
    for (const StageKind kind : {StageKind::driver, StageKind::prefill, StageKind::decode})
      stages[{kind, {}}] = live().epoch;
  }

  SetHistory& current() noexcept { return history.back(); }
  const PolicySet& live() const noexcept { return history.back().set; }

  template <class M>
  static void send(const StageRef& stage, M message, Effects& effects) {
    switch (stage.kind) {
    case StageKind::driver:
      effects.send(Peer::driver, std::move(message));
      break;
    case StageKind::prefill:
      effects.send(Peer::chunker, std::move(message));
      break;
    case StageKind::decode:
      effects.send(Peer::balancer, std::move(message));
      break;
    case StageKind::experts:
      effects.send(Peer::experts, std::move(message));
      break;
    case StageKind::rank:
      effects.add(Send{Peer::rank, stage.rank.rank, Message(std::move(message))});
    }
  }

  void end(const SwapAsked& ask, bool ok, std::string reason) {
    ended.push_back({ask.question, ok, live().epoch, live().name, ask.cause, std::move(reason)});
  }

  // -- a swap ------------------------------------------------------------------------------------

  void begin_next(std::int64_t now_us, Effects& effects) {
    while (!pending && !asks.empty()) {
      Ask ask = std::move(asks.front());
      asks.pop_front();
      if (now_us > ask.due_us) {
        end(ask.swap, false, "an earlier swap took too long; ask again");
        continue;
      }
      begin(std::move(ask.swap), now_us, effects);
    }
  }

  void begin(SwapAsked ask, std::int64_t now_us, Effects& effects) {
    newest = next(newest);
    ask.set.epoch = newest;
    pending.emplace();
    pending->ask = std::move(ask);
    pending->due_us = now_us + options.swap_timeout_us;
    for (const auto& [stage, epoch] : stages) {
      pending->silent.insert(stage);
      send(stage, SwapPrepare{pending->ask.set, 2 * options.swap_timeout_us}, effects);
    }
    effects.timer(TimerKind::swap, ++swap_serial, pending->due_us);
  }

  void abort(const std::string& reason, std::int64_t now_us, Effects& effects) {
    for (const auto& [stage, epoch] : stages)
      send(stage, SwapAbort{pending->ask.set.epoch}, effects);
    const SwapAsked ask = std::move(pending->ask);
    pending.reset();
    end(ask, false, reason);
    begin_next(now_us, effects);
  }

  void commit(std::int64_t now_us, Effects& effects) {
    const bool was_passed = current().passed;
    current().to_us = now_us;
    SetHistory made{pending->ask.set, now_us, 0, pending->ask.cause, pending->ask.reason, false};
    made.passed = made.set.probation.window_us <= 0 || made.how == SwapCause::rollback;
    history.push_back(std::move(made));
    if (static_cast<std::int64_t>(history.size()) > options.history_max) forget_oldest();
    faults.clear();
    fault_times_us.clear();
    if (was_passed) before = best_past(now_us);
    if (current().passed) before.reset();
    past.reset();
    windows_seen = 0;
    open_window(now_us, effects);
    pending->committing = true;
    pending->due_us = now_us + options.swap_timeout_us;
    for (const auto& [stage, epoch] : stages)
      pending->silent.insert(stage);
    send_commits(now_us, effects);
  }

  void send_commits(std::int64_t now_us, Effects& effects) {
    for (const auto& [stage, epoch] : stages) {
      if (epoch != live().epoch) send(stage, SwapCommit{live().epoch}, effects);
    }
    effects.timer(TimerKind::swap, ++swap_serial, now_us + options.commit_again_us);
  }

  /// Goes on when the phase has heard everybody.
  void settle(std::int64_t now_us, Effects& effects) {
    if (!pending || !pending->silent.empty()) return;
    if (!pending->committing) {
      commit(now_us, effects);
      return;
    }
    const SwapAsked ask = std::move(pending->ask);
    pending.reset();
    end(ask, true, ask.reason);
    begin_next(now_us, effects);
  }

  std::string silent_text() const {
    std::string text;
    for (const StageRef& stage : pending->silent)
      text += (text.empty() ? "" : ", ") + stage_text(stage);
    return text;
  }

  void on_swap_timer(std::int64_t now_us, Effects& effects) {
    if (!pending) {
      // A stage that missed its commit hears it until it answers.
      const bool behind = std::any_of(stages.begin(), stages.end(), [&](const auto& item) {
        return item.second != live().epoch;
      });
      if (behind) send_commits(now_us, effects);
      return;
    }
    if (!pending->committing) {
      abort(silent_text() + " did not answer within policies.swap_timeout_ms", now_us, effects);
      return;
    }
    send_commits(now_us, effects);
    if (now_us < pending->due_us) return;
    const SwapAsked ask = std::move(pending->ask);
    const std::string late = silent_text();
    pending.reset();
    end(ask, true,
        ask.reason + (ask.reason.empty() ? "" : "; ") + late +
            " did not confirm yet and switches at its next event");
    begin_next(now_us, effects);
  }

  void forget(const StageRef& stage, std::int64_t now_us, Effects& effects) {
    stages.erase(stage);
    if (pending && pending->silent.erase(stage) != 0) settle(now_us, effects);
  }

  // -- history -----------------------------------------------------------------------------------

  /// The oldest set that is neither live nor the goal of a rollback.
  void forget_oldest() {
    const SetHistory* goal = rollback_goal();
    const auto oldest = std::find_if(history.begin(), history.end() - 1,
                                     [&](const SetHistory& item) { return &item != goal; });
    history.erase(oldest);
  }

  /// The last set before the live one that passed; null when the compiled-in one is the goal.
  const SetHistory* rollback_goal() const {
    for (auto at = history.rbegin() + 1; at != history.rend(); ++at) {
      if (at->passed) return &*at;
    }
    return nullptr;
  }

  SwapAsked rollback(std::uint64_t question, std::string reason) const {
    const SetHistory* goal = rollback_goal();
    SwapAsked ask{question, goal == nullptr ? PolicySet{} : goal->set, SwapCause::rollback,
                  std::move(reason)};
    return ask;
  }

  // -- probation ---------------------------------------------------------------------------------

  std::int64_t window_us() const {
    return live().probation.window_us > 0 ? live().probation.window_us : kQuietWindowUs;
  }

  void open_window(std::int64_t now_us, Effects& effects) {
    window = LatencyWindow(now_us);
    effects.timer(TimerKind::probation, ++window_serial, now_us + window_us());
  }

  /// The running window if it says something, else the last whole one.
  std::optional<PastWindow> best_past(std::int64_t now_us) const {
    const bool enough = window.requests() >= live().probation.requests_min;
    if (enough && now_us - window.from_us() >= window_us() / 2) return PastWindow{window, now_us};
    if (past) return past;
    if (window.requests() > 0) return PastWindow{window, now_us};
    return std::nullopt;
  }

  void window_ends(std::int64_t now_us, Effects& effects) {
    const PastWindow whole{window, now_us};
    const bool enough = window.requests() >= live().probation.requests_min;
    if (current().passed) {
      if (enough) past = whole;
      open_window(now_us, effects);
      return;
    }
    if (!enough && ++windows_seen < kProbationWindowsMax) {
      effects.timer(TimerKind::probation, ++window_serial, now_us + window_us());
      return;
    }
    const std::string broken =
        before ? broken_guardrail(live().probation, *before, whole) : std::string();
    if (broken.empty()) {
      pass(now_us, effects);
      past = whole;
      return;
    }
    open_window(now_us, effects);
    take(rollback(0, "probation of \"" + live().name + "\": " + broken), now_us, effects);
  }

  void pass(std::int64_t now_us, Effects& effects) {
    current().passed = true;
    before.reset();
    open_window(now_us, effects);
  }

  // -- asking ------------------------------------------------------------------------------------

  void take(SwapAsked ask, std::int64_t now_us, Effects& effects) {
    if (asks.size() >= kAsksMax) {
      end(ask, false, std::to_string(kAsksMax) + " swaps wait already; ask again later");
      return;
    }
    asks.push_back({std::move(ask), now_us + 4 * options.swap_timeout_us});
    begin_next(now_us, effects);
  }
};

ManagerStage::ManagerStage(const ManagerOptions& options, PolicySet first, std::int64_t now_us)
    : state_(std::make_unique<State>(options, std::move(first), now_us)) {}

ManagerStage::~ManagerStage() = default;

void ManagerStage::start(std::int64_t now_us, Effects& effects) {
  state_->open_window(now_us, effects);
}

std::vector<SwapEnded> ManagerStage::take_ended() { return std::exchange(state_->ended, {}); }

const PolicySet& ManagerStage::live() const noexcept { return state_->live(); }

bool ManagerStage::on_probation() const noexcept { return !state_->history.back().passed; }

const std::vector<SetHistory>& ManagerStage::history() const noexcept { return state_->history; }

const std::vector<FaultTotal>& ManagerStage::faults() const noexcept { return state_->faults; }

void ManagerStage::on(const SwapAsked& event, std::int64_t now_us, Effects& effects) {
  state_->take(event, now_us, effects);
}

void ManagerStage::on(const RollbackAsked& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  const SwapAsked ask = s.rollback(event.question, event.reason);
  if (s.history.size() == 1 && s.live().text.empty()) {
    s.end(ask, false, "the compiled-in set is live; there is nothing to go back to");
    return;
  }
  s.take(ask, now_us, effects);
}

void ManagerStage::on(const PromoteAsked& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  const SwapAsked ask{event.question, {}, SwapCause::command, {}};
  if (s.current().passed) {
    s.end(ask, false, "the live set is not on probation");
    return;
  }
  s.pass(now_us, effects);
  s.end(ask, true, "passed by command");
}

void ManagerStage::on(const Prepared& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (!s.pending || s.pending->committing || s.pending->ask.set.epoch != event.epoch) return;
  if (s.pending->silent.count(event.stage) == 0) return;
  if (!event.ok) {
    s.abort(stage_text(event.stage) + ": " + event.reason, now_us, effects);
    return;
  }
  s.pending->silent.erase(event.stage);
  s.settle(now_us, effects);
}

void ManagerStage::on(const Committed& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  const auto known = s.stages.find(event.stage);
  if (known == s.stages.end()) return;
  known->second = event.epoch;
  if (!s.pending || !s.pending->committing || event.epoch != s.live().epoch) return;
  s.pending->silent.erase(event.stage);
  s.settle(now_us, effects);
}

void ManagerStage::on(const SetRequest& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (event.stage.kind == StageKind::rank) {
    // An older life of this rank says nothing more.
    std::vector<StageRef> older;
    for (const auto& [stage, epoch] : s.stages) {
      if (stage.kind == StageKind::rank && stage.rank.rank == event.stage.rank.rank &&
          stage.rank.incarnation < event.stage.rank.incarnation) {
        older.push_back(stage);
      }
    }
    for (const StageRef& stage : older)
      s.forget(stage, now_us, effects);
  }
  s.stages[event.stage] = event.epoch;
  if (event.epoch != s.live().epoch) {
    s.send(event.stage, SwapPrepare{s.live(), 2 * s.options.swap_timeout_us}, effects);
    s.send(event.stage, SwapCommit{s.live().epoch}, effects);
    effects.timer(TimerKind::swap, ++s.swap_serial, now_us + s.options.commit_again_us);
  }
  if (!s.pending) return;
  if (s.pending->committing) {
    if (event.epoch != s.live().epoch) s.pending->silent.insert(event.stage);
    return;
  }
  s.pending->silent.insert(event.stage);
  s.send(event.stage, SwapPrepare{s.pending->ask.set, 2 * s.options.swap_timeout_us}, effects);
}

void ManagerStage::on(const PolicyFault& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (event.epoch != s.live().epoch) return;
  const auto same = std::find_if(s.faults.begin(), s.faults.end(), [&](const FaultTotal& total) {
    return total.fault.stage == event.stage && total.fault.kind == event.kind &&
           total.fault.policy == event.policy;
  });
  if (same != s.faults.end()) {
    same->fault = event;
    ++same->times;
  } else if (static_cast<std::int64_t>(s.faults.size()) < s.options.faults_max) {
    s.faults.push_back({event, 1});
  }
  s.fault_times_us.push_back(now_us);
  while (!s.fault_times_us.empty() && now_us - s.fault_times_us.front() > kFaultWindowUs)
    s.fault_times_us.pop_front();
  const auto times = static_cast<std::int64_t>(s.fault_times_us.size());
  if (times <= s.options.invalid_decisions_max) return;
  s.fault_times_us.clear();
  const bool nothing_else = s.rollback_goal() == nullptr && s.live().text.empty();
  if (nothing_else || s.pending) return;
  s.take(s.rollback(0, std::to_string(times) + " decisions of \"" + s.live().name +
                           "\" did not count within 60 s, the last one of " + event.kind +
                           " policy \"" + event.policy + "\": " + event.what),
         now_us, effects);
}

void ManagerStage::on(const RequestEnded& event, std::int64_t /*now_us*/, Effects& /*effects*/) {
  state_->window.add(event.ok, event.ttft_us, event.tpot_us, event.preemptions);
}

void ManagerStage::on(const RankDown& event, std::int64_t now_us, Effects& effects) {
  state_->forget({StageKind::rank, event.rank}, now_us, effects);
}

void ManagerStage::on(const Timer& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (event.kind == TimerKind::swap && event.key == s.swap_serial) s.on_swap_timer(now_us, effects);
  if (event.kind == TimerKind::probation && event.key == s.window_serial) {
    s.window_ends(now_us, effects);
  }
}

} // namespace troupe::sched
