// Orders requests: those that wait for a rank, and those that share a rank's next step.

#pragma once

#include "schedulers/model/decisions.hpp"
#include "schedulers/model/request_view.hpp"
#include "schedulers/policy/policy.hpp"

#include <cstdint>
#include <span>

namespace troupe::sched {

/// What happened to a request that waits for a rank.
enum class QueueEvent : std::uint8_t {
  entered,  ///< It waits from now on.
  served,   ///< It was given a rank.
  returned, ///< That rank did not take it: it waits again, and `served` is undone.
  left,     ///< It waits no longer and was not served.
};

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

  /// The outcome of orders: what policies with accounts learn from. Not called for requests that
  /// share a rank's next step.
  virtual void observe(const RequestView& /*request*/, QueueEvent /*event*/,
                       const PolicyContext& /*ctx*/) noexcept {}
};

} // namespace troupe::sched
