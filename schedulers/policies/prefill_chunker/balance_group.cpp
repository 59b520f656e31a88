#include "schedulers/policies/prefill_chunker/balance_group.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace troupe::sched {
namespace {

std::int64_t pairs_of(std::int64_t tokens, std::int64_t context) {
  return tokens * context + tokens * (tokens + 1) / 2;
}

std::int64_t local_ps(const GroupCost& cost, std::int64_t tokens, std::int64_t context) {
  return cost.token_local_ps * tokens + cost.pair_ps * pairs_of(tokens, context);
}

/// Ranks with what they run, while pieces move.
struct Filling {
  const GroupCost& cost;
  std::span<const GroupChunk> chunks;
  std::vector<GroupPiece> pieces;
  std::vector<std::int64_t> load_ps; ///< [ranks]
  std::vector<bool> split;           ///< [ranks] gave or got a part of a chunk.

  std::int64_t piece_ps(const GroupPiece& piece) const {
    return local_ps(cost, piece.tokens, chunks[piece.chunk].context + piece.first);
  }

  void place_whole(std::uint32_t chunk) {
    const auto lowest = std::min_element(load_ps.begin(), load_ps.end());
    const auto rank = static_cast<std::uint32_t>(lowest - load_ps.begin());
    pieces.push_back({rank, chunk, 0, chunks[chunk].tokens});
    *lowest += piece_ps(pieces.back());
  }

  /// Moves the tail of the largest piece of `from` to `to`: as much as leaves `from` the higher of
  /// the two and not below `mean_ps`.
  void level(std::uint32_t from, std::uint32_t to, std::int64_t mean_ps) {
    GroupPiece* largest = nullptr;
    for (GroupPiece& piece : pieces) {
      if (piece.rank == from && (largest == nullptr || piece.tokens > largest->tokens)) {
        largest = &piece;
      }
    }
    if (largest == nullptr || largest->tokens < 2) return;
    const auto loads_after = [&](std::int64_t moved) {
      const std::int64_t context = chunks[largest->chunk].context + largest->first;
      const std::int64_t kept = largest->tokens - moved;
      const std::int64_t tail_ps = local_ps(cost, moved, context + kept);
      const std::int64_t from_ps = load_ps[from] - tail_ps;
      return std::make_pair(from_ps, load_ps[to] + tail_ps);
    };
    std::int64_t low = 0;
    std::int64_t high = largest->tokens;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      const auto [from_ps, to_ps] = loads_after(middle);
      (from_ps >= mean_ps && to_ps <= from_ps ? low : high) = middle;
    }
    if (low == 0) return;
    const auto [from_ps, to_ps] = loads_after(low);
    load_ps[from] = from_ps;
    load_ps[to] = to_ps;
    largest->tokens -= low;
    const GroupPiece tail{to, largest->chunk, largest->first + largest->tokens, low};
    pieces.push_back(tail);
  }
};

} // namespace

std::int64_t group_step_ps(const GroupCost& cost, std::span<const GroupLoad> loads) noexcept {
  std::int64_t highest = 0;
  std::int64_t tokens = 0;
  for (const GroupLoad& load : loads) {
    highest = std::max(highest, cost.token_local_ps * load.tokens + cost.pair_ps * load.pairs);
    tokens += load.tokens;
  }
  __extension__ using Signed128 = __int128;
  const Signed128 shared =
      static_cast<Signed128>(cost.token_shared_ps) * cost.imbalance_permille * tokens;
  const auto parts = static_cast<Signed128>(std::max<std::size_t>(1, loads.size())) * 1000;
  return cost.step_ps + highest + static_cast<std::int64_t>((shared + parts - 1) / parts);
}

std::vector<GroupPiece> balance_group(const GroupCost& cost, std::span<const GroupChunk> chunks,
                                      std::uint32_t ranks) {
  Filling filling{cost, chunks, {}, {}, {}};
  filling.load_ps.assign(ranks, 0);
  filling.split.assign(ranks, false);
  std::vector<std::uint32_t> order(chunks.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const std::int64_t cost_a = local_ps(cost, chunks[a].tokens, chunks[a].context);
    const std::int64_t cost_b = local_ps(cost, chunks[b].tokens, chunks[b].context);
    return cost_a != cost_b ? cost_a > cost_b : a < b;
  });
  for (const std::uint32_t chunk : order)
    filling.place_whole(chunk);

  // Raise the lowest rank to the common level, from each higher rank at most once.
  const std::int64_t total =
      std::accumulate(filling.load_ps.begin(), filling.load_ps.end(), std::int64_t{0});
  const std::int64_t mean = total / ranks;
  for (std::uint32_t given = 0; given < ranks; ++given) {
    std::int64_t best = -1;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      if (filling.split[rank] || filling.load_ps[rank] <= mean) continue;
      if (best < 0 || filling.load_ps[rank] > filling.load_ps[static_cast<std::size_t>(best)]) {
        best = rank;
      }
    }
    if (best < 0) break;
    const auto from = static_cast<std::uint32_t>(best);
    filling.split[from] = true;
    const auto lowest = std::min_element(filling.load_ps.begin(), filling.load_ps.end());
    filling.level(from, static_cast<std::uint32_t>(lowest - filling.load_ps.begin()), mean);
  }
  return filling.pieces;
}

std::vector<GroupLoad> group_loads(std::span<const GroupChunk> chunks,
                                   std::span<const GroupPiece> pieces, std::uint32_t ranks) {
  std::vector<GroupLoad> loads(ranks);
  for (const GroupPiece& piece : pieces) {
    loads[piece.rank].tokens += piece.tokens;
    loads[piece.rank].pairs += pairs_of(piece.tokens, chunks[piece.chunk].context + piece.first);
  }
  return loads;
}

} // namespace troupe::sched
