// The best number of drafts on one rank, found without looking at every number.

#pragma once

#include "schedulers/policies/draft_length/residuals.hpp"
#include "schedulers/policies/draft_length/survival_buckets.hpp"
#include "schedulers/policy/draft_length_policy.hpp"

#include <cstddef>

namespace troupe::sched {

/// How many of `drafts`, the likeliest first, make tokens out over time highest; of equal numbers
/// the lowest.
///
/// Tokens out at the borders of the buckets are exact. A bucket that could not beat the best border
/// even with all its tokens at its lowest time is passed over; the others are tried draft by draft.
///
///   Cost   O(drafts), and a sort of the buckets that are tried
/// @pre a time never falls in the table of the query: a staircase and no negative additions
std::size_t best_count_on_one(const DraftQuery& query, const Residuals& residuals,
                              const SurvivalBuckets& drafts);

} // namespace troupe::sched
