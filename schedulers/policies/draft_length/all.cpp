#include "schedulers/policies/draft_length/all.hpp"

#include "schedulers/policies/draft_length/walk.hpp"

namespace troupe::sched {

Decision<DraftLengths> AllDrafts::choose(const DraftQuery& query,
                                         const PolicyContext& /*ctx*/) noexcept {
  DraftLengths lengths;
  for (const DraftRow& row : query.rows)
    lengths.lengths.push_back(static_cast<std::int64_t>(row.survivals.size()));
  finish_lengths(query, {}, lengths);
  return {std::move(lengths), query.rows.empty() ? Reason::nothing_to_do : Reason::within_budget};
}

} // namespace troupe::sched
