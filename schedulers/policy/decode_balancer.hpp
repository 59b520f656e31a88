// Chooses the decode rank that will hold a request's kv blocks until it ends.
//
// The choice is advice: the rank itself confirms the reservation, because the view may be stale.
// See schedulers/stage/handoff_stage.hpp for the protocol.

#pragma once

#include "schedulers/model/decisions.hpp"
#include "schedulers/model/rank_view.hpp"
#include "schedulers/policy/policy.hpp"

#include <span>

namespace troupe::sched {

/// Places a finished prefill on one decode rank.
///
/// Contract, on top of the one in policy.hpp:
///   Cost     O(ranks); at most 3 times a plain filtered argmin over the same views
///   Errors   no value, with a reason, when no rank has room
///
/// Source: policies.md section 3; "Decode Load Balancer" in the DeepSeek-V3/R1 inference system
/// overview (2025): balance KV use and request count.
class DecodeBalancer : public Policy {
public:
  /// @param ranks  [decode ranks] snapshots, ascending by RankId, never empty
  /// @post  the returned rank is in `ranks` and has_room() for the query
  virtual Decision<Placement> place(const PlacementQuery& query, std::span<const RankView> ranks,
                                    const PolicyContext& ctx) noexcept = 0;
};

} // namespace troupe::sched
