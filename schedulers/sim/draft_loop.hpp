// Speculative decoding in virtual time: ranks that step together, and a policy that says how many
// drafts each of their sequences verifies.
//
// A step yields what is expected of it, so a comparison of policies carries the noise of the
// workload only, not that of single acceptances.

#pragma once

#include "schedulers/policy/draft_length_policy.hpp"

#include <cstdint>
#include <span>

namespace troupe::sim {

/// What a run came to.
struct DraftTotals {
  std::int64_t steps = 0;
  std::int64_t rows = 0;     ///< Sequences, counted once a step.
  std::int64_t verified = 0; ///< Drafts.
  std::int64_t invalid = 0;  ///< Answers that broke a rule; such a step verifies nothing.
  std::int64_t out = 0;      ///< Tokens that came out, in 2^-30.
  std::int64_t time_ps = 0;
};

/// Steps of one group under one policy.
class DraftLoop {
public:
  /// @param costs        true times of steps, and what the policy is told; outlive this object
  /// @param overhead_ps  of a step, on top of the table: the policy finds it only by measuring
  DraftLoop(sched::DraftLengthPolicy& policy, const sched::StepCosts& costs,
            std::int64_t overhead_ps)
      : policy_(policy), costs_(costs), overhead_ps_(overhead_ps) {}

  /// @param rank_tokens  as in DraftQuery
  void step(std::span<const sched::DraftRow> rows, std::span<const std::int64_t> rank_tokens);

  const DraftTotals& totals() const noexcept { return totals_; }
  /// Tokens a second, in thousandths. @pre a step was made
  std::int64_t millitokens_per_s() const noexcept;

private:
  sched::DraftLengthPolicy& policy_;
  const sched::StepCosts& costs_;
  std::int64_t overhead_ps_;
  Rng rng_{1};
  sched::CostModel model_;
  DraftTotals totals_;
};

} // namespace troupe::sim
