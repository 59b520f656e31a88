// One rank's snapshot, corrected by what its reader already promised since then.

#pragma once

#include "schedulers/core/ids.hpp"
#include "schedulers/model/request_view.hpp"
#include "schedulers/model/role.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::sched {

/// A rank as a router or balancer sees it.
///
/// Free counts have the reader's own assignments and reservations subtracted that no report covers
/// yet; running, context_tokens and work_ps have them added.
struct RankView {
  RankRef rank;
  Role role = Role::both;
  bool draining = false;
  bool held = false; ///< Kept for an earlier request that waits for this rank's resources.
  std::int64_t block_tokens = 1;
  std::int64_t context_max = 0; ///< 0 = no limit known.
  std::int64_t kv_blocks_free = 0;
  std::int64_t kv_blocks_total = 0;
  std::int64_t slots_free = 0;
  std::int64_t slots_total = 0;
  std::int64_t running = 0;         ///< Sequences that decode or will soon.
  std::int64_t context_tokens = 0;  ///< Of those.
  std::int64_t queued = 0;          ///< Requests routed here whose prefill is not complete.
  std::int64_t queued_tokens = 0;   ///< Of those, prompts with what is cached of them.
  std::int64_t uncached_tokens = 0; ///< Of those, tokens still to compute.
  std::int64_t work_ps = 0;         ///< Queue estimate W of policies.md section 2.1.
  std::int64_t as_of_us = 0;        ///< When the snapshot was received.
  bool operator==(const RankView&) const = default;
};

/// A request that needs a rank.
struct PlacementQuery {
  RequestView request;
  RankRef source; ///< Rank that holds the KV; zero for a prefill.
  /// [ranks] prompt tokens whose KV the rank at that place holds already; empty = none anywhere.
  std::span<const std::int64_t> local_hit_tokens = {};

  std::int64_t local_hit(std::size_t place) const noexcept {
    return place < local_hit_tokens.size() ? local_hit_tokens[place] : 0;
  }
};

/// kv blocks for `positions` tokens. @pre block_tokens >= 1
constexpr std::int64_t blocks_for(std::int64_t positions, std::int64_t block_tokens) noexcept {
  if (positions <= 0) return 0;
  // A division would be half of what looking at a rank costs; block sizes are powers of two.
  const auto size = static_cast<std::uint64_t>(block_tokens);
  if ((size & (size - 1)) == 0) return ((positions - 1) >> std::countr_zero(size)) + 1;
  return (positions - 1) / block_tokens + 1;
}

/// What one request needs of a rank, computed once where many ranks are asked about.
class RequestNeed {
public:
  constexpr explicit RequestNeed(const RequestView& request) noexcept
      : total_(request.total()), reserved_(request.positions_reserved()),
        least_(request.positions_least()), max_(request.positions_max()),
        capped_(request.claim.reservation != Reservation::worst) {}

  /// kv blocks that `rank` reserves: what the claim says of what happens there. Who may grow into
  /// the unknown, or had its share of preemptions, takes a whole rank at most.
  constexpr std::int64_t blocks(const RankView& rank) const noexcept {
    if (!decodes(rank.role)) return blocks_for(total_, rank.block_tokens);
    const std::int64_t blocks = blocks_for(reserved_, rank.block_tokens);
    return capped_ ? std::min(blocks, rank.kv_blocks_total) : blocks;
  }

  /// Whether `rank` could take the request if it were empty.
  constexpr bool could_fit(const RankView& rank) const noexcept {
    const std::int64_t least = decodes(rank.role) ? least_ : total_;
    return blocks_for(least, rank.block_tokens) <= rank.kv_blocks_total && rank.slots_total >= 1 &&
           (rank.context_max <= 0 || max_ <= rank.context_max);
  }

  /// Whether `rank` may be chosen now.
  constexpr bool has_room(const RankView& rank) const noexcept {
    return !rank.draining && !rank.held && rank.slots_free >= 1 &&
           blocks(rank) <= rank.kv_blocks_free && could_fit(rank);
  }

private:
  std::int64_t total_;
  std::int64_t reserved_;
  std::int64_t least_;
  std::int64_t max_;
  bool capped_;
};

/// kv blocks that `rank` reserves for `query`.
constexpr std::int64_t blocks_needed(const PlacementQuery& query, const RankView& rank) noexcept {
  return RequestNeed(query.request).blocks(rank);
}

/// Whether `rank` could take `query` if it were empty.
constexpr bool could_fit(const PlacementQuery& query, const RankView& rank) noexcept {
  return RequestNeed(query.request).could_fit(rank);
}

/// Whether `rank` may be chosen for `query` now: what validate.hpp demands of an answer.
constexpr bool has_room(const PlacementQuery& query, const RankView& rank) noexcept {
  return RequestNeed(query.request).has_room(rank);
}

} // namespace troupe::sched
