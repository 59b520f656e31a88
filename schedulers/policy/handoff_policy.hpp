// Decides how and when a finished prefill moves to a decode rank.
//
// Where it goes is the decode balancer's choice; this kind paces the transfers.

#pragma once

#include "schedulers/model/decisions.hpp"
#include "schedulers/model/request_view.hpp"
#include "schedulers/policy/policy.hpp"

#include <cstdint>

namespace troupe::sched {

/// A finished prefill that could move now.
struct HandoffQuery {
  RequestView request;
  RankRef source;
  std::int64_t tries = 0;               ///< Handoffs of this request that failed.
  std::int64_t transfers_of_source = 0; ///< Under way from the same rank.
  std::int64_t transfers = 0;           ///< Under way in all.
  bool operator==(const HandoffQuery&) const = default;
};

/// Plans one handoff.
///
/// Contract, on top of the one in policy.hpp:
///   Cost     O(1)
///   Errors   no value, with a reason, to wait; asked again when a transfer ends
///   @post    with nothing under way a value is set: a handoff always starts in the end
///
/// Source: policies.md section 7.4 (transfer rates); contracts.md section 1 (leases).
class HandoffPolicy : public Policy {
public:
  virtual Decision<HandoffPlan> plan(const HandoffQuery& query,
                                     const PolicyContext& ctx) noexcept = 0;
};

} // namespace troupe::sched
