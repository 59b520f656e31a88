// Draft lengths as the released engine chooses them, to compare with.

#pragma once

#include "schedulers/model/step_costs.hpp"
#include "schedulers/policies/draft_length/graph_residuals.hpp"
#include "schedulers/policies/draft_length/walk.hpp"
#include "schedulers/policy/draft_length_policy.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe::sched {

/// Survivals from the confidences of one sequence: a missing one (below 0) of a draft that exists
/// counts as certain, and what follows a stop token as impossible.
///
/// @param confidences  [drafts] conditional, in 2^-30  @param stop_at  place of a stop token; -1
std::vector<std::int64_t> released_survivals(std::span<const std::int64_t> confidences,
                                             std::int64_t stop_at);

/// Each rank by itself, although all wait for the slowest: the first best of tokens out over
/// curve[g] + s·g + q among all sizes, from the survivals of two steps ago, then the likeliest
/// current drafts. g is the smallest recorded graph that is large enough; nothing runs beyond the
/// largest, and the curve is not repaired. s and q are medians of measured steps. Where nothing was
/// known two steps ago, drafts count as certain. Takes no options.
///
/// Cost: after each observed step once O(window · log window), then O(drafts · log drafts).
/// State: the windows of measured steps.
///
/// Source: policies.md section 5.2, released engine.
class ReleasedDrafts final : public DraftLengthPolicy {
public:
  Decision<DraftLengths> choose(const DraftQuery& query,
                                const PolicyContext& ctx) noexcept override;
  void observe(const DraftOutcome& outcome) noexcept override;
  std::string export_state() const override { return residuals_.text(); }
  void import_state(const std::string& state) override { residuals_.read(state); }

private:
  /// The table of the query with what was learnt; the query's own additions where nothing was.
  StepCosts costs_for(const DraftQuery& query, std::int64_t rows);

  GraphResiduals residuals_;
};

} // namespace troupe::sched
