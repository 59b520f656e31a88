#include "schedulers/policies/prefill_router/least_tokens.hpp"

#include "schedulers/policies/pick.hpp"

namespace troupe::sched {

Decision<Placement> LeastTokensRouter::route(const PlacementQuery& query,
                                             std::span<const RankView> ranks,
                                             const PolicyContext& /*ctx*/) noexcept {
  const auto room = room_of(query);
  return pick_lowest(ranks, room, [](const RankView& rank) {
    return Score{rank.queued_tokens, 0};
  });
}

} // namespace troupe::sched
