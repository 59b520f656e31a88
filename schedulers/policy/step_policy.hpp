// Merges prefill slices and decode tokens into one engine step of one rank.
//
// It may shrink or defer what is offered, never enlarge it.

#pragma once

#include "schedulers/model/decisions.hpp"
#include "schedulers/policy/policy.hpp"

#include <cstdint>
#include <span>

namespace troupe::sched {

/// A slice on offer for this step.
struct OfferedSlice {
  RequestRef ref;
  std::int64_t first = 0; ///< Tokens before it.
  std::int64_t count = 0; ///< >= 1.
  bool operator==(const OfferedSlice&) const = default;
};

/// A sequence that wants one more token.
struct DecodeView {
  RequestRef ref;
  std::int64_t positions = 0; ///< Tokens it holds.
  bool operator==(const DecodeView&) const = default;
};

struct StepQuery {
  std::span<const OfferedSlice> slices; ///< As the chunker packed them.
  std::span<const DecodeView> decodes;  ///< The one that waited longest first.
  std::int64_t step_tokens_max = 0;     ///< >= 1.
};

/// Composes one step.
///
/// Contract, on top of the one in policy.hpp:
///   Cost     O(slices + decodes)
///   Errors   always a value
///   @post    distinct indices; at least one token and at most step_tokens_max; no slice longer
///            than offered
///
/// Source: policies.md sections 1.4 and 8 "Offline mixing".
class StepPolicy : public Policy {
public:
  /// @pre slices or decodes is not empty
  virtual Decision<StepDecision> compose(const StepQuery& query,
                                         const PolicyContext& ctx) noexcept = 0;
};

} // namespace troupe::sched
