#include "schedulers/policies/prefill_chunker/balance_group.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

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

  std::int64_t piece_ps(const GroupPiece& piece) const {
    return local_ps(cost, piece.tokens, chunks[piece.chunk].context + piece.first);
  }

  void place_whole(std::uint32_t chunk) {
    const auto lowest = std::min_element(load_ps.begin(), load_ps.end());
    const auto rank = static_cast<std::uint32_t>(lowest - load_ps.begin());
    pieces.push_back({rank, chunk, 0, chunks[chunk].tokens});
    *lowest += piece_ps(pieces.back());
  }

  std::size_t largest_piece(std::uint32_t rank) const {
    std::size_t largest = pieces.size();
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].rank != rank) continue;
      if (largest == pieces.size() || piece_ps(pieces[i]) > piece_ps(pieces[largest])) largest = i;
    }
    return largest;
  }

  /// Moves a tail of piece `at` to rank `to`: as much as keeps the giver at or above `level_ps` and
  /// the receiver at or below. Returns whether anything moved.
  bool pour(std::size_t at, std::uint32_t to, std::int64_t level_ps) {
    const GroupPiece piece = pieces[at];
    const std::int64_t context = chunks[piece.chunk].context + piece.first;
    const auto tail_ps = [&](std::int64_t moved) {
      return local_ps(cost, moved, context + piece.tokens - moved);
    };
    const std::int64_t spare_ps = std::min(load_ps[piece.rank] - level_ps, level_ps - load_ps[to]);
    std::int64_t low = 0;
    std::int64_t high = piece.tokens; // One token stays at least.
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (tail_ps(middle) <= spare_ps ? low : high) = middle;
    }
    if (low == 0) return false;
    load_ps[piece.rank] -= tail_ps(low);
    load_ps[to] += tail_ps(low);
    pieces[at].tokens -= low;
    pieces.push_back({to, piece.chunk, piece.first + piece.tokens - low, low});
    return true;
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
  Filling filling{cost, chunks, {}, {}};
  filling.load_ps.assign(ranks, 0);
  std::vector<std::uint32_t> order(chunks.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const std::int64_t cost_a = local_ps(cost, chunks[a].tokens, chunks[a].context);
    const std::int64_t cost_b = local_ps(cost, chunks[b].tokens, chunks[b].context);
    return cost_a != cost_b ? cost_a > cost_b : a < b;
  });
  for (const std::uint32_t chunk : order)
    filling.place_whole(chunk);

  // Pour what is above the mean into what is below. By the rule of LPT a rank exceeds the mean by
  // less than its smallest chunk, so one of its chunks is cut at most.
  const std::int64_t total =
      std::accumulate(filling.load_ps.begin(), filling.load_ps.end(), std::int64_t{0});
  const std::int64_t level_ps = (total + ranks - 1) / ranks;
  for (std::uint32_t from = 0; from < ranks; ++from) {
    if (filling.load_ps[from] <= level_ps) continue;
    const std::size_t at = filling.largest_piece(from);
    for (std::uint32_t given = 0; given < ranks && filling.load_ps[from] > level_ps; ++given) {
      const auto lowest = std::min_element(filling.load_ps.begin(), filling.load_ps.end());
      const auto to = static_cast<std::uint32_t>(lowest - filling.load_ps.begin());
      if (!filling.pour(at, to, level_ps)) break;
    }
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
