#include "schedulers/stage/manager_stage.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

namespace troupe::sched {
namespace {

constexpr std::size_t kAsksMax = 16;          ///< Swaps that wait for the one under way.
constexpr std::size_t kReasonBytesMax = 1000; ///< No more is added to a reason from there on.
constexpr std::int64_t kFaultWindowUs = 60'000'000;
constexpr std::int64_t kProbationWindowsMax = 10;   ///< Then too few requests are no objection.
constexpr std::int64_t kQuietWindowUs = 30'000'000; ///< Of a set without a probation.

/// A swap between its first SwapPrepare and its last Committed.
struct Pending {
  SwapAsked ask;
  bool back = false;
  bool committing = false;
  std::set<StageRef> silent; ///< Have not answered Prepare, or Commit.
  std::int64_t due_us = 0;   ///< Of this phase.
};

struct Ask {
  SwapAsked swap;
  std::int64_t due_us = 0;
  bool back = false;               ///< To the last set that passed, as it is when its turn comes.
  std::optional<PolicyEpoch> from; ///< Only while this set is live: it is what has to go.
};

/// The set that needs no file and no library.
bool is_compiled_in(const PolicySet& set) { return set.text.empty() && set.kinds.empty(); }

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
  std::vector<PolicySet>
      passed;           ///< What rollbacks go to, the nearest one last; never the live one.
  PolicyEpoch newest{}; ///< Highest epoch ever given.
  std::map<StageRef, PolicyEpoch> stages;
  std::map<RankId, Incarnation> dead; ///< Newest life of each rank that ended.
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

  void take(Ask ask, std::int64_t now_us, Effects& effects) {
    if (asks.size() >= kAsksMax) {
      end(ask.swap, false, std::to_string(kAsksMax) + " swaps wait already; ask again later");
      return;
    }
    ask.due_us = now_us + 4 * options.swap_timeout_us;
    asks.push_back(std::move(ask));
    begin_next(now_us, effects);
  }

  /// The live set has to go. Once: an ask that waits already says it.
  void take_back(std::string reason, std::int64_t now_us, Effects& effects) {
    const bool waits =
        std::any_of(asks.begin(), asks.end(), [&](const Ask& ask) { return ask.from.has_value(); });
    if (waits) return;
    Ask ask;
    ask.swap = {0, {}, SwapCause::rollback, std::move(reason)};
    ask.back = true;
    ask.from = live().epoch;
    take(std::move(ask), now_us, effects);
  }

  void begin_next(std::int64_t now_us, Effects& effects) {
    while (!pending && !asks.empty()) {
      Ask ask = std::move(asks.front());
      asks.pop_front();
      if (now_us > ask.due_us) {
        end(ask.swap, false, "an earlier swap took too long; ask again");
      } else if (ask.from && *ask.from != live().epoch) {
        end(ask.swap, false, "another set went live meanwhile; before that: " + ask.swap.reason);
      } else if (ask.back && nothing_before()) {
        end(ask.swap, false, "the compiled-in set is live; there is nothing to go back to");
      } else {
        begin(std::move(ask), now_us, effects);
      }
    }
    arm(now_us, effects);
  }

  void begin(Ask ask, std::int64_t now_us, Effects& effects) {
    newest = next(newest);
    pending.emplace();
    pending->back = ask.back;
    pending->ask = std::move(ask.swap);
    if (ask.back) pending->ask.set = passed.empty() ? PolicySet{} : passed.back();
    pending->ask.set.epoch = newest;
    pending->due_us = now_us + options.swap_timeout_us;
    for (const auto& [stage, epoch] : stages) {
      pending->silent.insert(stage);
      send(stage, SwapPrepare{pending->ask.set, drop_after_us(), false}, effects);
    }
  }

  void abort(const std::string& reason, std::int64_t now_us, Effects& effects) {
    for (const auto& [stage, epoch] : stages)
      send(stage, SwapAbort{pending->ask.set.epoch}, effects);
    finish(false, reason, now_us, effects);
  }

  /// A set on the way back cannot be taken any more, as when its library is gone: the one before it
  /// is tried, and the compiled-in one in the end.
  void pass_over(const std::string& why, std::int64_t now_us, Effects& effects) {
    for (const auto& [stage, epoch] : stages)
      send(stage, SwapAbort{pending->ask.set.epoch}, effects);
    Ask ask;
    ask.back = true;
    ask.swap = std::move(pending->ask);
    if (ask.swap.reason.size() < kReasonBytesMax) {
      ask.swap.reason += (ask.swap.reason.empty() ? "\"" : "; \"") + ask.swap.set.name +
                         "\" was passed over: " + why;
    }
    pending.reset();
    passed.pop_back();
    if (nothing_before()) {
      end(ask.swap, false, ask.swap.reason);
      begin_next(now_us, effects);
      return;
    }
    begin(std::move(ask), now_us, effects);
    arm(now_us, effects);
  }

  void finish(bool ok, std::string reason, std::int64_t now_us, Effects& effects) {
    const SwapAsked ask = std::move(pending->ask);
    pending.reset();
    end(ask, ok, std::move(reason));
    begin_next(now_us, effects);
  }

  void commit(std::int64_t now_us, Effects& effects) {
    const bool was_passed = current().passed;
    current().to_us = now_us;
    if (was_passed) before = best_past(now_us);
    keep_way_back(was_passed);
    SetHistory made{pending->ask.set, now_us, 0, pending->ask.cause, pending->ask.reason, false};
    made.passed = made.set.probation.window_us <= 0 || pending->back;
    history.push_back(std::move(made));
    if (static_cast<std::int64_t>(history.size()) > options.history_max) {
      history.erase(history.begin());
    }
    faults.clear();
    fault_times_us.clear();
    if (current().passed) before.reset();
    past.reset();
    windows_seen = 0;
    open_window(now_us, effects);
    pending->committing = true;
    pending->due_us = now_us + options.swap_timeout_us;
    for (const auto& [stage, epoch] : stages)
      pending->silent.insert(stage);
    send_commits(effects);
    arm(now_us, effects);
  }

  /// To the stages that do not decide by the live set yet.
  void send_commits(Effects& effects) const {
    for (const auto& [stage, epoch] : stages) {
      if (epoch < live().epoch) send(stage, SwapCommit{live().epoch}, effects);
    }
  }

  /// Goes on when the phase has heard everybody.
  void settle(std::int64_t now_us, Effects& effects) {
    if (!pending || !pending->silent.empty()) return;
    if (pending->committing) {
      finish(true, pending->ask.reason, now_us, effects);
    } else {
      commit(now_us, effects);
    }
  }

  std::string silent_text() const {
    std::string text;
    for (const StageRef& stage : pending->silent)
      text += (text.empty() ? "" : ", ") + stage_text(stage);
    return text;
  }

  /// Asks for the next moment at which silence means something.
  void arm(std::int64_t now_us, Effects& effects) {
    const bool behind = std::any_of(stages.begin(), stages.end(),
                                    [&](const auto& item) { return item.second < live().epoch; });
    if (!pending && !behind) return;
    std::int64_t at_us = now_us + options.commit_again_us;
    if (pending && !pending->committing) {
      at_us = behind ? std::min(at_us, pending->due_us) : pending->due_us;
    }
    effects.timer(TimerKind::swap, ++swap_serial, at_us);
  }

  void on_swap_timer(std::int64_t now_us, Effects& effects) {
    const bool late = pending && now_us >= pending->due_us;
    if (late && !pending->committing) {
      abort(silent_text() + " did not answer within policies.swap_timeout_ms", now_us, effects);
      return;
    }
    send_commits(effects); // A stage that missed its commit hears it until it answers.
    if (late) {
      const std::string& why = pending->ask.reason;
      finish(true,
             why + (why.empty() ? "" : "; ") + silent_text() +
                 " did not confirm yet and switches at its next event",
             now_us, effects);
      return;
    }
    arm(now_us, effects);
  }

  void forget(const StageRef& stage, std::int64_t now_us, Effects& effects) {
    stages.erase(stage);
    if (pending && pending->silent.erase(stage) != 0) settle(now_us, effects);
  }

  /// Forgets the lives of a rank up to `last`; they say nothing more.
  void forget_lives(RankId rank, Incarnation last, std::int64_t now_us, Effects& effects) {
    std::vector<StageRef> over;
    for (const auto& [stage, epoch] : stages) {
      if (stage.kind == StageKind::rank && stage.rank.rank == rank &&
          stage.rank.incarnation <= last) {
        over.push_back(stage);
      }
    }
    for (const StageRef& stage : over)
      forget(stage, now_us, effects);
  }

  std::int64_t drop_after_us() const { return 2 * options.swap_timeout_us; }

  // -- the way back ------------------------------------------------------------------------------

  /// Before the live set goes: what a rollback of its successor leads to.
  void keep_way_back(bool was_passed) {
    if (pending->back) {
      if (!passed.empty()) passed.pop_back();
      return;
    }
    if (!was_passed) return;
    passed.push_back(live());
    if (static_cast<std::int64_t>(passed.size()) > options.history_max) {
      passed.erase(passed.begin());
    }
  }

  bool nothing_before() const { return passed.empty() && is_compiled_in(live()); }

  // -- faults ------------------------------------------------------------------------------------

  void note(const PolicyFault& fault) {
    const auto same = std::find_if(faults.begin(), faults.end(), [&](const FaultTotal& total) {
      return total.fault.stage == fault.stage && total.fault.kind == fault.kind &&
             total.fault.policy == fault.policy;
    });
    if (same != faults.end()) {
      same->fault = fault;
      ++same->times;
    } else if (static_cast<std::int64_t>(faults.size()) < options.faults_max) {
      faults.push_back({fault, 1});
    }
  }

  /// Counts a decision that did not count; the last set that passed comes back after too many.
  void count_fault(const PolicyFault& fault, std::int64_t now_us, Effects& effects) {
    fault_times_us.push_back(now_us);
    while (now_us - fault_times_us.front() > kFaultWindowUs ||
           static_cast<std::int64_t>(fault_times_us.size()) > options.invalid_decisions_max + 1) {
      fault_times_us.pop_front();
    }
    const auto times = static_cast<std::int64_t>(fault_times_us.size());
    if (times <= options.invalid_decisions_max || pending || nothing_before()) return;
    fault_times_us.clear();
    take_back(std::to_string(times) + " decisions of \"" + live().name +
                  "\" did not count within 60 s, the last one of " + fault.kind + " policy \"" +
                  fault.policy + "\": " + fault.what,
              now_us, effects);
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
    take_back("probation of \"" + live().name + "\": " + broken, now_us, effects);
  }

  void pass(std::int64_t now_us, Effects& effects) {
    current().passed = true;
    before.reset();
    open_window(now_us, effects);
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

bool ManagerStage::swapping() const noexcept { return state_->pending.has_value(); }

const std::vector<SetHistory>& ManagerStage::history() const noexcept { return state_->history; }

const std::vector<FaultTotal>& ManagerStage::faults() const noexcept { return state_->faults; }

void ManagerStage::on(const SwapAsked& event, std::int64_t now_us, Effects& effects) {
  Ask ask;
  ask.swap = event;
  state_->take(std::move(ask), now_us, effects);
}

void ManagerStage::on(const RollbackAsked& event, std::int64_t now_us, Effects& effects) {
  Ask ask;
  ask.swap = {event.question, {}, SwapCause::rollback, event.reason};
  ask.back = true;
  state_->take(std::move(ask), now_us, effects);
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
  if (!event.ok && event.epoch == s.live().epoch) {
    // It goes on by the set it has, and is asked again.
    s.note(
        {event.stage, event.epoch, {}, s.live().name, "cannot take the live set: " + event.reason});
  }
  if (!s.pending || s.pending->committing || s.pending->ask.set.epoch != event.epoch) return;
  if (s.pending->silent.count(event.stage) == 0) return;
  if (!event.ok) {
    const std::string why = stage_text(event.stage) + ": " + event.reason;
    if (s.pending->back && !s.passed.empty()) {
      s.pass_over(why, now_us, effects);
    } else {
      s.abort(why, now_us, effects);
    }
    return;
  }
  s.pending->silent.erase(event.stage);
  s.settle(now_us, effects);
}

void ManagerStage::on(const Committed& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  const auto known = s.stages.find(event.stage);
  if (known == s.stages.end()) return;
  known->second = std::max(known->second, event.epoch);
  if (!s.pending || !s.pending->committing || event.epoch != s.live().epoch) return;
  s.pending->silent.erase(event.stage);
  s.settle(now_us, effects);
}

void ManagerStage::on(const SetRequest& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  const RankRef rank = event.stage.rank;
  const bool is_rank = event.stage.kind == StageKind::rank;
  const auto died = s.dead.find(rank.rank);
  if (is_rank && died != s.dead.end() && rank.incarnation <= died->second) return;
  PolicyEpoch& known = s.stages[event.stage];
  known = std::max(known, event.epoch);
  if (s.pending && (!s.pending->committing || known < s.live().epoch)) {
    s.pending->silent.insert(event.stage); // It has a say before its older lives are forgotten.
  }
  if (is_rank) {
    const Incarnation before{raw(rank.incarnation) - 1};
    s.dead[rank.rank] = before;
    s.forget_lives(rank.rank, before, now_us, effects);
  }
  if (known < s.live().epoch) {
    s.send(event.stage, SwapPrepare{s.live(), s.drop_after_us(), true}, effects);
    s.arm(now_us, effects);
  }
  if (s.pending && !s.pending->committing) {
    s.send(event.stage, SwapPrepare{s.pending->ask.set, s.drop_after_us(), false}, effects);
  }
}

void ManagerStage::on(const PolicyFault& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (event.epoch != s.live().epoch) return;
  s.note(event);
  s.count_fault(event, now_us, effects);
}

void ManagerStage::on(const RequestEnded& event, std::int64_t /*now_us*/, Effects& /*effects*/) {
  state_->window.add(event.ok, event.ttft_us, event.tpot_us, event.preemptions, event.live);
}

void ManagerStage::on(const RankDown& event, std::int64_t now_us, Effects& effects) {
  Incarnation& last = state_->dead[event.rank.rank];
  last = std::max(last, event.rank.incarnation);
  state_->forget_lives(event.rank.rank, last, now_us, effects);
}

void ManagerStage::on(const Timer& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (event.kind == TimerKind::swap && event.key == s.swap_serial) s.on_swap_timer(now_us, effects);
  if (event.kind == TimerKind::probation && event.key == s.window_serial) {
    s.window_ends(now_us, effects);
  }
}

} // namespace troupe::sched
