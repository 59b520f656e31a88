#include "schedulers/policies/draft_length/released.hpp"

#include "schedulers/model/integer_math.hpp"

#include <algorithm>

namespace troupe::sched {
namespace {

/// Drafts of one rank, the likeliest first, by the survivals of two steps ago.
std::vector<Draft> ranked_before(std::span<const DraftRow> rows, std::uint32_t rank) {
  std::vector<Draft> drafts;
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    if (rows[row].rank != rank) continue;
    const auto old = rows[row].old_survivals;
    std::int64_t survival = kCertain;
    for (std::uint32_t position = 0; position < rows[row].survivals.size(); ++position) {
      if (position < old.size()) survival = old[position];
      drafts.push_back({survival, row, position});
    }
  }
  std::stable_sort(drafts.begin(), drafts.end(),
                   [](const Draft& a, const Draft& b) { return a.survival > b.survival; });
  return drafts;
}

/// How many of `drafts` are worth it: the first best over all sizes that can run.
std::size_t best_count(const StepCosts& costs, std::int64_t tokens, std::int64_t rows,
                       const std::vector<Draft>& drafts) {
  std::int64_t out = multiply_saturated(rows, kCertain);
  std::int64_t best_out = 0;
  std::int64_t best_ps = 1;
  std::size_t best = 0;
  for (std::size_t k = 0; k <= drafts.size(); ++k) {
    if (k > 0) out += drafts[k - 1].survival;
    const std::int64_t ps = costs.at(tokens + static_cast<std::int64_t>(k));
    if (ps == StepCosts::kNever) break;
    if (!ratio_less(best_out, best_ps, out, std::max<std::int64_t>(1, ps))) continue;
    best_out = out;
    best_ps = std::max<std::int64_t>(1, ps);
    best = k;
  }
  return best;
}

} // namespace

std::vector<std::int64_t> released_survivals(std::span<const std::int64_t> confidences,
                                             std::int64_t stop_at) {
  std::vector<std::int64_t> survivals;
  std::int64_t survival = kCertain;
  for (const std::int64_t confidence : confidences) {
    const auto position = static_cast<std::int64_t>(survivals.size());
    if (stop_at >= 0 && position > stop_at) survival = 0;
    if (confidence >= 0) survival = scale(survival, confidence, kCertain);
    survivals.push_back(survival);
  }
  return survivals;
}

StepCosts ReleasedDrafts::costs_for(const DraftQuery& query, std::int64_t rows) {
  StepCosts costs = query.costs;
  costs.curve = CostCurve::graphs;
  if (const std::int64_t learnt = residuals_.token_ps(); learnt > 0) costs.token_ps = learnt;
  if (const std::int64_t learnt = residuals_.extra_ps(rows); learnt > 0) costs.extra_ps = learnt;
  return costs;
}

Decision<DraftLengths> ReleasedDrafts::choose(const DraftQuery& query,
                                              const PolicyContext& /*ctx*/) noexcept {
  DraftLengths made;
  made.lengths.assign(query.rows.size(), 0);
  made.expected = multiply_saturated(static_cast<std::int64_t>(query.rows.size()), kCertain);
  if (query.rows.empty() || query.costs.points.empty()) {
    for (std::size_t row = 0; row < query.rows.size(); ++row)
      made.lengths[row] = static_cast<std::int64_t>(query.rows[row].survivals.size());
    finish_lengths(query, {}, made);
    return {std::move(made), Reason::nothing_to_do};
  }
  const std::vector<Draft> likely = ranked(query.rows, false);
  bool all = true;
  for (std::uint32_t rank = 0; rank < query.rank_tokens.size(); ++rank) {
    std::vector<Draft> now;
    for (const Draft& draft : likely) {
      if (query.rows[draft.row].rank == rank) now.push_back(draft);
    }
    const auto rows = std::count_if(query.rows.begin(), query.rows.end(),
                                    [&](const DraftRow& row) { return row.rank == rank; });
    const StepCosts costs = costs_for(query, rows);
    const std::size_t count =
        best_count(costs, query.rank_tokens[rank], rows, ranked_before(query.rows, rank));
    for (std::size_t k = 0; k < count; ++k) {
      ++made.lengths[now[k].row];
      made.expected += now[k].survival;
    }
    const std::int64_t tokens = query.rank_tokens[rank] + static_cast<std::int64_t>(count);
    made.step_ps = std::max(made.step_ps, costs.at(tokens));
    all = all && count == now.size();
  }
  return {std::move(made), all ? Reason::within_budget : Reason::budget_reached};
}

void ReleasedDrafts::observe(const DraftOutcome& outcome) noexcept {
  if (outcome.rows > 0) residuals_.learn_extra(outcome.rows, outcome.extra_ps);
  if (outcome.size < 1) return;
  residuals_.learn(outcome.size, outcome.curve_ps, outcome.measured_ps - outcome.extra_ps);
}

} // namespace troupe::sched
