// Balances the chunks of a synchronous prefill group by cost, not by token count.
//
// Ranks of such a group step together: the slowest sets the pace, so equal cost is what counts.

#pragma once

#include "schedulers/model/cost_model.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::sched {

/// Costs of a group step. token_local_ps + token_shared_ps is the token_ps of the cost model:
/// the first part is work of the rank itself, the second is spread over the group by the experts.
struct GroupCost {
  std::int64_t step_ps = 0;
  std::int64_t token_local_ps = 0;
  std::int64_t token_shared_ps = 0;
  std::int64_t pair_ps = 0;
  std::int64_t imbalance_permille = 1000; ///< PAR: busiest expert device over the mean.
};

/// A chunk that waits for a rank of the group.
struct GroupChunk {
  std::int64_t tokens = 0;  ///< >= 1.
  std::int64_t context = 0; ///< Tokens before it.
};

/// A piece of chunk `chunk` for rank `rank`: `tokens` tokens that begin `first` tokens into it.
struct GroupPiece {
  std::uint32_t rank = 0;
  std::uint32_t chunk = 0;
  std::int64_t first = 0;
  std::int64_t tokens = 0;
};

/// Step time when rank r runs loads[r]: t0 + max(local) + mean(shared), to the next picosecond.
struct GroupLoad {
  std::int64_t tokens = 0;
  std::int64_t pairs = 0; ///< Sum of n·c + n(n+1)/2 of its pieces.
};
std::int64_t group_step_ps(const GroupCost& cost, std::span<const GroupLoad> loads) noexcept;

/// Whole chunks by longest processing time first, then water-filling: tails of one chunk of each
/// rank above the mean go to the ranks below it.
///
///   Pure     ties to the lower rank, then to the lower chunk
///   Cost     O(chunks · log chunks + ranks² · log tokens)
///
/// Source: policies.md section 1.5. @pre ranks >= 1
std::vector<GroupPiece> balance_group(const GroupCost& cost, std::span<const GroupChunk> chunks,
                                      std::uint32_t ranks);

/// What each rank runs under `pieces`.
std::vector<GroupLoad> group_loads(std::span<const GroupChunk> chunks,
                                   std::span<const GroupPiece> pieces, std::uint32_t ranks);

} // namespace troupe::sched
