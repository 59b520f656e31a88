// Chooses the rank that prefills a request, once, before its first chunk.
//
// The choice is advice: the rank confirms or refuses, because the view may be stale.

#pragma once

#include "schedulers/model/decisions.hpp"
#include "schedulers/model/rank_view.hpp"
#include "schedulers/policy/policy.hpp"

#include <span>

namespace troupe::sched {

/// Routes one request.
///
/// Contract, on top of the one in policy.hpp:
///   Cost     O(ranks); at most 3 times a plain filtered argmin over the same views
///   Errors   no value, with a reason, when no rank has room
///
/// Source: policies.md section 2.
class PrefillRouter : public Policy {
public:
  /// @param ranks  [prefill ranks] snapshots, ascending by RankId, never empty; assignments that
  ///               no report covers yet are part of them
  /// @post  the returned rank is in `ranks` and has_room() for the query
  virtual Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                                    const PolicyContext& ctx) noexcept = 0;
};

} // namespace troupe::sched
