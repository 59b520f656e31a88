#include "schedulers/policies/prefill_router/staggered.hpp"

#include "schedulers/model/queue_estimate.hpp"
#include "schedulers/policies/pick.hpp"

#include <algorithm>
#include <limits>

namespace troupe::sched {

Decision<Placement> StaggeredRouter::route(const PlacementQuery& query,
                                           std::span<const RankView> ranks,
                                           const PolicyContext& ctx) noexcept {
  constexpr std::int64_t kPicosPerMicro = 1'000'000;
  const auto room = room_of(query);
  const std::int64_t held_until_us =
      add_saturated(std::max<std::int64_t>(0, query.request.arrival_us), options_.hold_us_max);
  std::int64_t least_us = std::numeric_limits<std::int64_t>::max();
  for (const RankView& rank : ranks) {
    if (room(rank)) least_us = std::min(least_us, rank.work_ps / kPicosPerMicro);
  }
  if (least_us == std::numeric_limits<std::int64_t>::max()) return {std::nullopt, Reason::no_room};
  if (least_us > options_.ahead_us && ctx.now_us < held_until_us) {
    const std::int64_t free_us = add_saturated(ctx.now_us, least_us - options_.ahead_us);
    return {std::nullopt, Reason::held_back, std::min(held_until_us, free_us)};
  }
  return pick_lowest(ranks, room, [](const RankView& rank) {
    return Score{rank.work_ps, rank.queued};
  });
}

} // namespace troupe::sched
