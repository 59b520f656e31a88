// The policy manager: takes one set through prepare, commit and probation on every stage at once.
//
// A set goes live on all stages or on none. It then is on probation: the guardrails compare each
// window with the last one before the swap, and a breach brings back the last set that passed, or,
// when a stage refuses that one, the one before it, and the compiled-in one in the end.
// Source: contracts.md section 7.

#pragma once

#include "schedulers/model/latency_window.hpp"
#include "schedulers/stage/effects.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::sched {

struct ManagerOptions {
  std::int64_t swap_timeout_us = 5'000'000; ///< A stage that is silent so long aborts the swap.
  std::int64_t commit_again_us = 200'000;   ///< A commit without answer is repeated.
  std::int64_t invalid_decisions_max = 100; ///< In 60 s; more bring back the last set that passed.
  std::int64_t history_max = 64;            ///< Sets remembered; the oldest ones go.
  std::int64_t faults_max = 32;             ///< Different faults remembered for a person.
};

/// Where a swap comes from.
enum class SwapCause : std::uint8_t { start, file, command, rollback };

/// "start", "file", "command", "rollback".
std::string_view swap_cause_name(SwapCause cause) noexcept;

/// Somebody wants `set` live. Its epoch is given by the manager.
struct SwapAsked {
  std::uint64_t question = 0; ///< Comes back with the answer; 0 = nobody waits for it.
  PolicySet set;
  SwapCause cause = SwapCause::command;
  std::string reason; ///< "the file changed", a person's words.
};

/// Back to the last set that passed its probation, or the one before it when the live one did.
struct RollbackAsked {
  std::uint64_t question = 0;
  std::string reason;
};

/// The live set ends its probation now, as passed.
struct PromoteAsked {
  std::uint64_t question = 0;
};

/// How a swap ended. The only one that belongs to its question.
struct SwapEnded {
  std::uint64_t question = 0;
  bool ok = false;
  PolicyEpoch epoch{}; ///< Live now.
  std::string name;    ///< Of the live set.
  SwapCause cause = SwapCause::command;
  std::string reason; ///< Why it was refused, or why it was made.
};

/// A request ended: what the guardrails look at.
struct RequestEnded {
  bool ok = false;
  std::int64_t ttft_us = 0;
  std::int64_t tpot_us = -1; ///< -1 = fewer than two tokens.
  std::int64_t preemptions = 0;
  std::int64_t live = 0; ///< Requests in the system, this one left out.
};

/// A set that was or is live.
struct SetHistory {
  PolicySet set;
  std::int64_t from_us = 0;
  std::int64_t to_us = 0; ///< 0 = still live.
  SwapCause how = SwapCause::start;
  std::string reason;
  bool passed = false; ///< Its probation.
};

/// A kind of fault and how often it came.
struct FaultTotal {
  PolicyFault fault; ///< The last one of its kind, stage and policy.
  std::int64_t times = 0;
};

/// Pure state machine of the policy manager.
///
///   Thread   one owner
///   Errors   a swap that fails leaves the live set as it is, and its SwapEnded says why
class ManagerStage {
public:
  /// @pre `first` is the set every stage is built from, and was checked
  ManagerStage(const ManagerOptions& options, PolicySet first, std::int64_t now_us);
  ~ManagerStage();

  /// Opens the first window. Once, before everything else.
  void start(std::int64_t now_us, Effects& effects);

  void on(const SwapAsked& event, std::int64_t now_us, Effects& effects);
  void on(const RollbackAsked& event, std::int64_t now_us, Effects& effects);
  void on(const PromoteAsked& event, std::int64_t now_us, Effects& effects);
  void on(const Prepared& event, std::int64_t now_us, Effects& effects);
  void on(const Committed& event, std::int64_t now_us, Effects& effects);
  void on(const SetRequest& event, std::int64_t now_us, Effects& effects);
  void on(const PolicyFault& event, std::int64_t now_us, Effects& effects);
  void on(const RequestEnded& event, std::int64_t now_us, Effects& effects);
  void on(const RankDown& event, std::int64_t now_us, Effects& effects);
  void on(const Timer& event, std::int64_t now_us, Effects& effects);

  /// Swaps that ended since the last call, in order.
  std::vector<SwapEnded> take_ended();

  /// The set that new stages are built from: live, or committed and on its way.
  const PolicySet& live() const noexcept;
  bool on_probation() const noexcept;
  /// Between the first SwapPrepare of a set and its end.
  bool swapping() const noexcept;
  /// Oldest first; the last one is live.
  const std::vector<SetHistory>& history() const noexcept;
  /// Of the live set.
  const std::vector<FaultTotal>& faults() const noexcept;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace troupe::sched
