// The feasibility rule that every decode balancer shares.

#pragma once

#include "schedulers/model/rank_view.hpp"

namespace troupe::sched {

struct RoomOptions {
  /// Share of a rank's kv blocks that placement leaves free while the rank holds anything.
  /// Unit: thousandths of the total (written as a number, 0.02 = 2 %). Default 20.
  /// Range 0 to 0.5. Hot: yes.
  std::int64_t headroom_permille = 20;
};

/// K + need <= cap·(1 - headroom), in blocks. An empty rank takes whatever fits it at all, so that
/// no request waits for ever for a headroom it can never leave.
///
/// Source: policies.md section 3.2.
class DecodeRoom {
public:
  constexpr DecodeRoom(const PlacementQuery& query, const RoomOptions& options) noexcept
      : need_(query.request), headroom_permille_(options.headroom_permille) {}

  constexpr bool operator()(const RankView& rank) const noexcept {
    if (!need_.has_room(rank)) return false;
    if (rank.slots_free == rank.slots_total) return true;
    const std::int64_t headroom_blocks = rank.kv_blocks_total * headroom_permille_ / 1000;
    return rank.kv_blocks_free - need_.blocks(rank) >= headroom_blocks;
  }

private:
  RequestNeed need_;
  std::int64_t headroom_permille_;
};

} // namespace troupe::sched
