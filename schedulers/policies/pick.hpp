// Filter, score, pick: the lowest score of those that pass, ties to the lower rank id.

#pragma once

#include "schedulers/model/decisions.hpp"
#include "schedulers/model/rank_view.hpp"
#include "schedulers/policy/policy.hpp"

#include <cstdint>
#include <span>
#include <tuple>

namespace troupe::sched {

/// What is compared: the second number decides between equal first ones.
struct Score {
  std::int64_t first = 0;
  std::int64_t second = 0;
  auto operator<=>(const Score&) const = default;
};

/// The rank with the lowest score among those that pass `filter`. `ranks` ascends by id, so the
/// first of equals has the lowest id. The scores of all ranks go with the answer.
template <class Filter, class Scorer>
Decision<Placement> pick_lowest(std::span<const RankView> ranks, const Filter& filter,
                                const Scorer& scorer) {
  Decision<Placement> decision{std::nullopt, Reason::no_room};
  Placement placement;
  placement.scores.reserve(ranks.size());
  Score best;
  std::int64_t passed = 0;
  bool tie = false;
  for (const RankView& rank : ranks) {
    const Score score = scorer(rank);
    placement.scores.push_back(score.first);
    if (!filter(rank)) continue;
    if (++passed == 1 || score < best) {
      best = score;
      placement.rank = rank.rank.rank;
      tie = false;
    } else if (score == best) {
      tie = true;
    }
  }
  if (passed == 0) return decision;
  decision.value = std::move(placement);
  decision.reason = passed == 1 ? Reason::only_choice
                    : tie       ? Reason::tie_lowest_id
                                : Reason::lowest_score;
  return decision;
}

} // namespace troupe::sched
