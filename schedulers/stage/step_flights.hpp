// The steps that an engine was given and has not answered: at most two, oldest first.
//
// What a step in flight names is not given to anybody else before that step is back. A sequence
// that ended, or was given up, keeps blocks and slot until then: they are its quarantine.

#pragma once

#include "schedulers/policy/overlap_policy.hpp"
#include "schedulers/stage/effects.hpp"
#include "schedulers/stage/rank_stage.hpp"
#include "schedulers/stage/sequence_table.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace troupe::sched {

/// One step in flight.
struct StepFlight {
  std::uint64_t step = 0;
  std::vector<StepEntry> entries;
  std::int64_t tokens = 0;
};

class StepFlights {
public:
  static constexpr std::size_t kStepsMax = 2; ///< The running one and the next.

  bool none() const noexcept { return flights_.empty(); }
  std::int64_t held() const noexcept { return static_cast<std::int64_t>(flights_.size()); }
  /// The one that runs. @pre not none()
  const StepFlight& oldest() const noexcept { return flights_.front(); }

  /// @pre fewer than kStepsMax are in flight; `step` has entries
  void launch(const RunStep& step);
  /// Takes the oldest one back when it has this number: steps end in order.
  std::optional<StepFlight> retire(std::uint64_t step);

private:
  std::deque<StepFlight> flights_;
};

/// Notes on a sequence that a step in flight works on it, and that it does no longer.
void join_step(Sequence& sequence, const StepEntry& entry, std::uint64_t step);
void leave_step(Sequence& sequence, const StepEntry& entry);

/// The rank at a moment when it could plan a step ahead. `host_us` is what the last step waited for
/// its plan.
OverlapView view_ahead(const StepFlights& flights, const SequenceTable& table,
                       const RankOptions& options, std::int64_t host_us);

/// Whether a sequence that decodes has a token to come that no step in flight draws. One that
/// draws its last one now is certain to end with it: a step for it would be surplus.
bool wants_token(const Sequence& sequence) noexcept;

/// Whether a part of its prompt is in no step yet.
bool wants_slice(const Sequence& sequence) noexcept;

} // namespace troupe::sched
