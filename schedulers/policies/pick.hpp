// Filter, score, pick: the best of those that pass, one that is drawn, or the better of two drawn.
//
// Ties go to the lower rank id.

#pragma once

#include "schedulers/model/decisions.hpp"
#include "schedulers/model/rank_view.hpp"
#include "schedulers/policy/policy.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>

namespace troupe::sched {

/// What is compared: the second number decides between equal first ones.
struct Score {
  std::int64_t first = 0;
  std::int64_t second = 0;
  auto operator<=>(const Score&) const = default;
};

/// has_room() of one request, to be asked about many ranks.
inline auto room_of(const PlacementQuery& query) noexcept {
  return [need = RequestNeed(query.request)](const RankView& rank) { return need.has_room(rank); };
}

/// How many ranks pass `filter`; at most `most`.
template <class Filter>
std::uint64_t count_passing(std::span<const RankView> ranks, const Filter& filter,
                            std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
  std::uint64_t passed = 0;
  for (const RankView& rank : ranks) {
    passed += filter(rank) ? 1 : 0;
    if (passed == most) break;
  }
  return passed;
}

/// The rank with the lowest score among those that pass `filter`. `ranks` ascends by id, so the
/// first of equals has the lowest id. The scores of all ranks go with the answer.
///
/// A score costs less than the filter, so only who would be chosen is asked whether it passes.
template <class Filter, class Scorer>
Decision<Placement> pick_lowest(std::span<const RankView> ranks, const Filter& filter,
                                const Scorer& scorer) {
  Placement placement;
  placement.scores.resize(ranks.size());
  std::int64_t* scored = placement.scores.data();
  const RankView* chosen = nullptr;
  Score best;
  bool tie = false;
  for (const RankView& rank : ranks) {
    const Score score = scorer(rank);
    *scored++ = score.first;
    if (chosen != nullptr && (score > best || (tie && score == best))) continue;
    if (!filter(rank)) continue;
    tie = chosen != nullptr && score == best;
    if (tie) continue;
    best = score;
    chosen = &rank;
  }
  if (chosen == nullptr) return {std::nullopt, Reason::no_room};
  placement.rank = chosen->rank.rank;
  const bool only = count_passing(ranks, filter, 2) == 1;
  return {std::move(placement), only  ? Reason::only_choice
                                : tie ? Reason::tie_lowest_id
                                      : Reason::lowest_score};
}

/// The `n`-th of the ranks that pass `filter`, counted from 0; null when there are fewer.
template <class Filter>
const RankView* nth_passing(std::span<const RankView> ranks, const Filter& filter,
                            std::uint64_t n) {
  for (const RankView& rank : ranks) {
    if (!filter(rank)) continue;
    if (n == 0) return &rank;
    --n;
  }
  return nullptr;
}

/// One of the ranks that pass `filter`, all equally likely; one draw, none for a single candidate.
template <class Filter>
Decision<Placement> pick_drawn(std::span<const RankView> ranks, const Filter& filter, Rng& rng) {
  const std::uint64_t passed = count_passing(ranks, filter);
  if (passed == 0) return {std::nullopt, Reason::no_room};
  const std::uint64_t n = passed == 1 ? 0 : rng.below(passed);
  const RankView* chosen = nth_passing(ranks, filter, n);
  return {Placement{chosen->rank.rank, {}}, passed == 1 ? Reason::only_choice : Reason::drawn};
}

/// The lower score of two different ranks that pass `filter`; two draws, none for a single one.
template <class Filter, class Scorer>
Decision<Placement> pick_of_two(std::span<const RankView> ranks, const Filter& filter,
                                const Scorer& scorer, Rng& rng) {
  const std::uint64_t passed = count_passing(ranks, filter);
  if (passed <= 1) return pick_drawn(ranks, filter, rng);
  const std::uint64_t a = rng.below(passed);
  std::uint64_t b = rng.below(passed - 1);
  b += b >= a ? 1 : 0;
  const RankView& low = *nth_passing(ranks, filter, std::min(a, b));
  const RankView& high = *nth_passing(ranks, filter, std::max(a, b));
  const RankView& chosen = scorer(high) < scorer(low) ? high : low;
  return {Placement{chosen.rank.rank, {}}, Reason::better_of_two};
}

} // namespace troupe::sched
