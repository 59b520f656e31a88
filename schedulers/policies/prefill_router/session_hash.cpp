#include "schedulers/policies/prefill_router/session_hash.hpp"

#include "schedulers/core/rng.hpp"
#include "schedulers/policies/pick.hpp"

namespace troupe::sched {

Decision<Placement> SessionHashRouter::route(const PlacementQuery& query,
                                             std::span<const RankView> ranks,
                                             const PolicyContext& /*ctx*/) noexcept {
  auto decision = pick_lowest(ranks, room_of(query), [&](const RankView& rank) {
    const std::uint64_t hash = mix64(query.request.session_hash ^ mix64(raw(rank.rank.rank)));
    return Score{-static_cast<std::int64_t>(hash >> 1), 0};
  });
  if (decision.reason == Reason::lowest_score) decision.reason = Reason::by_session;
  return decision;
}

} // namespace troupe::sched
