// Packs the slices of one rank's next step under a token or time budget.
//
// The step policy on the rank merges them with decode tokens and may shrink or defer them.

#pragma once

#include "schedulers/model/decisions.hpp"
#include "schedulers/model/request_view.hpp"
#include "schedulers/policy/policy.hpp"

#include <cstdint>
#include <span>

namespace troupe::sched {

/// The rank that asks for its next step.
struct PackQuery {
  RankRef rank;
  std::int64_t step_tokens_max = 0; ///< Of one engine step, >= 1.
  bool operator==(const PackQuery&) const = default;
};

/// Cuts prompts into chunks.
///
/// Contract, on top of the one in policy.hpp:
///   Cost     O(requests taken)
///   Errors   no value, with a reason, to let the rank wait; it then is asked again at retry_at_us
///
/// Source: policies.md sections 1.3 and 1.4.
class PrefillChunker : public Policy {
public:
  /// @param requests  [n] requests routed to this rank with remaining() >= 1, next one first,
  ///                  never empty
  /// @post  distinct candidates; 1 <= tokens <= remaining(); sum <= step_tokens_max
  virtual Decision<Slices> pack(const PackQuery& query, std::span<const RequestView> requests,
                                const PolicyContext& ctx) noexcept = 0;

  /// What one full step takes at most, fixed part included: tau of the queue estimate. >= 0.
  virtual std::int64_t step_budget_ps(const CostModel& model,
                                      std::int64_t step_tokens_max) const noexcept = 0;
};

} // namespace troupe::sched
