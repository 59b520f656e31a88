// Moves finished prefills to chosen decode ranks: reserve, pull, adopt, each with a bound.
//
// One try is one HandoffId. An answer that carries another id belongs to a try that is over; the
// target of such a try was told to release, so a late answer changes nothing.

#pragma once

#include "schedulers/stage/effects.hpp"

#include <cstdint>
#include <map>
#include <optional>

namespace troupe::sched {

/// States of one try, in order.
enum class HandoffState : std::uint8_t {
  reserving, ///< Reserve sent; the target has not answered.
  pulling,   ///< The target holds room and reads from the source.
  adopting,  ///< All bytes arrived; Adopt sent. In-place handoffs begin here.
};

struct Handoff {
  RequestRef ref;
  HandoffId id{};
  HandoffState state = HandoffState::reserving;
  RankRef source;
  RankRef target;
  std::int64_t positions = 0;
  std::string manifest;
  bool in_place = false;
  std::int64_t asked_us = 0; ///< When the target was told something last.
  std::int64_t due_us = 0;   ///< An answer must come before.
};

/// What an event did to a handoff.
struct HandoffOutcome {
  enum class What : std::uint8_t { nothing, stale, reserved, adopted, failed };
  What what = What::nothing;
  RequestRef ref;
  ErrorCode code = ErrorCode::ok; ///< With failed.
  std::string detail;
  bool in_step = false; ///< With failed: the target is in a step, which is no fault of this try.
};

/// Pure state machine of all handoffs under way. Owned and driven by the decode stage.
///
///   Errors   a failed try is an outcome; its target was already told to release
class HandoffStage {
public:
  HandoffStage(std::int64_t lease_us, std::int64_t timeout_us)
      : lease_us_(lease_us), timeout_us_(timeout_us) {}

  /// Begins a try. @pre no try of this request is under way
  HandoffId start(const PrefillDone& done, RankRef target, std::int64_t now_us, Effects& effects);

  HandoffOutcome on(const Reserved& event, std::int64_t now_us, Effects& effects);
  HandoffOutcome on(const Refused& event);
  HandoffOutcome on(const TransferDone& event, std::int64_t now_us, Effects& effects);
  HandoffOutcome on(const Adopted& event, Effects& effects);
  /// A try whose target was silent for the timeout has failed. While the target is in a step, one
  /// in place is asked for again, and waits on: no other rank could take the sequence.
  /// @param in_step  the target of this try works on a step since it was asked
  HandoffOutcome on_timeout(std::uint64_t key, bool in_step, std::int64_t now_us, Effects& effects);

  /// Gives up a try without outcome: its target is told to release. No try: no effect.
  void cancel(const RequestRef& ref, ErrorCode reason, Effects& effects);
  /// Forgets a try whose target is gone: nobody is told.
  void drop(const RequestRef& ref);
  /// Prolongs the target's lease. The source's is the decode stage's business.
  void renew(const RequestRef& ref, Effects& effects) const;

  const Handoff* find(const RequestRef& ref) const;
  /// The try that a timer's key means; null when it is over.
  const Handoff* find(HandoffId id) const;
  std::int64_t transfers() const noexcept { return transfers_; }
  /// Copies under way from `source`; in-place handoffs are none.
  std::int64_t transfers_of(RankRef source) const;

private:
  Handoff* match(const RequestRef& ref, RankRef rank, HandoffId id);
  void erase(const RequestRef& ref);
  /// The target was told something: its answer is due after the timeout.
  void ask(Handoff& handoff, std::int64_t now_us) const;
  HandoffOutcome fail(const Handoff& handoff, ErrorCode code, std::string detail, Effects& effects);

  std::int64_t lease_us_;
  std::int64_t timeout_us_;
  std::map<RequestRef, Handoff> under_way_;
  std::map<HandoffId, RequestRef> by_id_;
  std::map<RankRef, std::int64_t> transfers_of_;
  std::int64_t transfers_ = 0;
  HandoffId last_id_{};
};

} // namespace troupe::sched
