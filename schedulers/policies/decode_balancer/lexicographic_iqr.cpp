#include "schedulers/policies/decode_balancer/lexicographic_iqr.hpp"

#include "schedulers/policies/pick.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace troupe::sched {

Decision<Placement> LexicographicIqrBalancer::place(const PlacementQuery& query,
                                                    std::span<const RankView> ranks,
                                                    const PolicyContext& /*ctx*/) noexcept {
  if (ranks.empty()) return {std::nullopt, Reason::no_room};
  std::vector<std::int64_t> context;
  context.reserve(ranks.size());
  for (const RankView& rank : ranks)
    context.push_back(rank.context_tokens);
  std::sort(context.begin(), context.end());
  // Nearest rank: the ceil(p·N)-th smallest.
  const auto quantile = [&](std::size_t quarters) {
    return context[(quarters * context.size() + 3) / 4 - 1];
  };
  const std::int64_t q1 = quantile(1);
  const std::int64_t q3 = quantile(3);
  const DecodeRoom room(query, options_);
  const auto score = [](const RankView& rank) { return Score{rank.running, rank.context_tokens}; };
  // 2·K > 2·Q3 + 3·(Q3 - Q1), in integers.
  auto decision = pick_lowest(
      ranks,
      [&](const RankView& rank) {
        return room(rank) && (rank.context_tokens - q3) * 2 <= (q3 - q1) * 3;
      },
      score);
  return decision.value ? decision : pick_lowest(ranks, room, score);
}

} // namespace troupe::sched
