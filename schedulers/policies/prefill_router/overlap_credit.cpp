#include "schedulers/policies/prefill_router/overlap_credit.hpp"

#include "schedulers/model/integer_math.hpp"
#include "schedulers/model/queue_estimate.hpp"
#include "schedulers/policies/pick.hpp"

#include <algorithm>
#include <vector>

namespace troupe::sched {
namespace {

/// Cost in thousandths of a block.
std::int64_t cost_of(const PlacementQuery& query, const RankView& rank, std::size_t place,
                     std::int64_t credit_permille) {
  const std::int64_t hit = std::clamp<std::int64_t>(
      query.local_hit(place), 0, std::max<std::int64_t>(0, query.request.total()));
  const std::int64_t compute = blocks_for(
      add_saturated(rank.uncached_tokens, query.request.total() - hit), rank.block_tokens);
  const std::int64_t in_use =
      add_saturated(rank.kv_blocks_total - rank.kv_blocks_free, blocks_needed(query, rank));
  return add_saturated(multiply_saturated(compute, credit_permille),
                       multiply_saturated(in_use, 1000));
}

/// Index drawn with weights 2^-((cost - low)·log2(e) / (range·temperature)).
std::size_t draw_softmax(const std::vector<std::int64_t>& costs, std::int64_t temperature_permille,
                         Rng& rng) {
  const auto [low, high] = std::minmax_element(costs.begin(), costs.end());
  const std::int64_t range = std::max<std::int64_t>(1, *high - *low);
  constexpr std::int64_t kLog2E = 94'548; // log2(e) in 2^-16.
  std::vector<std::uint64_t> weights;
  std::uint64_t sum = 0;
  for (const std::int64_t cost : costs) {
    const Int128 exponent = static_cast<Int128>(cost - *low) * kLog2E * 1000 / range;
    weights.push_back(power_of_half(saturate(exponent / temperature_permille)));
    sum += weights.back();
  }
  std::uint64_t left = rng.below(sum);
  std::size_t at = 0;
  while (left >= weights[at])
    left -= weights[at++];
  return at;
}

} // namespace

Decision<Placement> OverlapCreditRouter::route(const PlacementQuery& query,
                                               std::span<const RankView> ranks,
                                               const PolicyContext& ctx) noexcept {
  const auto room = room_of(query);
  const auto cost = [&](const RankView& rank) {
    const auto place = static_cast<std::size_t>(&rank - ranks.data());
    return Score{cost_of(query, rank, place, options_.overlap_credit_permille), 0};
  };
  auto decision = pick_lowest(ranks, room, cost);
  if (options_.temperature_permille == 0 || !decision.value ||
      decision.reason == Reason::only_choice) {
    return decision;
  }
  std::vector<std::int64_t> costs;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (room(ranks[i])) costs.push_back(decision.value->scores[i]);
  }
  const std::size_t drawn = draw_softmax(costs, options_.temperature_permille, *ctx.rng);
  decision.value->rank = nth_passing(ranks, room, drawn)->rank.rank;
  decision.reason = Reason::drawn;
  return decision;
}

} // namespace troupe::sched
