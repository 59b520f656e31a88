// Orders requests: those that wait for a rank, and those that share a rank's next step.

#pragma once

#include "schedulers/model/decisions.hpp"
#include "schedulers/model/request_view.hpp"
#include "schedulers/policy/policy.hpp"

#include <span>

namespace troupe::sched {

/// Says who goes first.
///
/// Contract, on top of the one in policy.hpp:
///   Cost     O(n log n)
///   Errors   always a value
///
/// Source: policies.md section 1.6.
class QueuePolicy : public Policy {
public:
  /// @param waiting  [n] requests, ascending by RequestRef, never empty
  /// @post  a permutation of 0 .. n-1, next one first
  virtual Decision<Order> order(std::span<const RequestView> waiting,
                                const PolicyContext& ctx) noexcept = 0;
};

} // namespace troupe::sched
