// Base of all policies and the contract that every kind shares.

#pragma once

#include "schedulers/core/ids.hpp"
#include "schedulers/core/rng.hpp"
#include "schedulers/model/cost_model.hpp"
#include "schedulers/model/reason.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace troupe::sched {

/// What a policy may know besides its views; the only way to time and randomness.
struct PolicyContext {
  std::int64_t now_us = 0;
  Rng* rng = nullptr; ///< Never null in a call.
  PolicyEpoch epoch{};
  const CostModel* cost_model = nullptr; ///< Never null in a call.
  std::int64_t step_budget_ps = 0;       ///< tau of the chunker: what one step may take; 0 = none.
  std::int64_t block_tokens = 64;
};

/// A value or none, always with a reason.
template <class T>
struct Decision {
  std::optional<T> value;
  Reason reason = Reason::unset;
  std::int64_t retry_at_us = 0; ///< With no value: when asking again makes sense; 0 = any event.
  bool operator==(const Decision&) const = default;
};

/// One instance belongs to one stage and needs no locks.
///
/// Contract of every kind:
///   Pure     the same (state, view, context) gives the same answer; ties break by id
///   Errors   no value, with a reason; never throws, never blocks, does no I/O
///   The host validates each answer and replaces an invalid one by the kind's default.
class Policy {
public:
  virtual ~Policy() = default;

  /// State to carry into the next instance of the same kind and name; empty when there is none.
  /// It is all that later answers depend on besides options, questions and observations.
  virtual std::string export_state() const { return {}; }
  /// Text that is no state leaves a fresh instance as it is.
  virtual void import_state(const std::string&) {}
  /// Why the last call gave no valid answer, when the policy knows better than the check of its
  /// answer; "" otherwise.
  virtual std::string failure() const { return {}; }
};

} // namespace troupe::sched
