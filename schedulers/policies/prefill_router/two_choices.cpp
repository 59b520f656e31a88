#include "schedulers/policies/prefill_router/two_choices.hpp"

#include "schedulers/policies/pick.hpp"

namespace troupe::sched {

Decision<Placement> TwoChoicesRouter::route(const PlacementQuery& query,
                                            std::span<const RankView> ranks,
                                            const PolicyContext& ctx) noexcept {
  const auto room = room_of(query);
  const auto work = [](const RankView& rank) { return Score{rank.work_ps, 0}; };
  return pick_of_two(ranks, room, work, *ctx.rng);
}

} // namespace troupe::sched
