// What choosing a rank costs at the sizes of a large cluster: built-in policies against a plain
// filtered argmin over the same views, and the same rules behind the ABI and through its lane.

#pragma once

#include "actors/app/bench_figure.hpp"
#include "schedulers/model/rank_view.hpp"

#include <cstdint>
#include <vector>

namespace troupe::app {

/// `count` ranks of one role under made-up load; about one in eight has no room for `blocks`.
std::vector<sched::RankView> loaded_ranks(sched::Role role, std::uint32_t count,
                                          std::int64_t blocks, std::uint64_t seed);

/// Place of the lowest `key` among the ranks with `blocks` free kv blocks, ties to the first:
/// the least that looking for a rank can be. ranks.size() when none has room.
std::size_t plain_argmin(std::span<const sched::RankView> ranks, std::int64_t blocks,
                         std::int64_t sched::RankView::*key);

/// Prefill route over 512 ranks and decode route over 1,024: the goal of the built-in ones is 3
/// floors, of those through the lane 100 us. Source: policies.md section 9.5.
std::vector<BenchFigure> bench_routes(std::int64_t rounds);

} // namespace troupe::app
