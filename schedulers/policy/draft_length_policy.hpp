// Decides how many draft tokens of each sequence the next step verifies.
//
// The choice must not change what is answered: its size comes from confidences that are older than
// the drafts it is about.

#pragma once

#include "schedulers/core/ids.hpp"
#include "schedulers/core/result.hpp"
#include "schedulers/model/step_costs.hpp"
#include "schedulers/policy/policy.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::sched {

/// Probabilities are integers in 2^-30.
inline constexpr std::int64_t kCertain = 1LL << 30;

/// One sequence and its drafts.
struct DraftRow {
  RequestRef ref;
  std::uint32_t rank = 0; ///< Place of its rank in DraftQuery::rank_tokens.
  /// [drafts] probability that this draft and all before it are accepted; never rises.
  std::span<const std::int64_t> survivals;
  /// The same as known two steps ago, at most as long; empty = the current ones, where the choice
  /// does not matter to what is answered.
  std::span<const std::int64_t> old_survivals = {};
};

struct DraftQuery {
  std::span<const DraftRow> rows;
  /// [ranks] tokens of the step without any draft: one for each row, and prefill slices. The step
  /// takes as long as its fullest rank.
  std::span<const std::int64_t> rank_tokens;
  StepCosts costs;
};

struct DraftLengths {
  std::vector<std::int64_t> lengths; ///< [rows]
  std::int64_t expected = 0;         ///< Tokens that come out, one for each row included, in 2^-30.
  std::int64_t step_ps = 0;          ///< What the step is expected to take.
};

/// How one step went.
struct DraftOutcome {
  std::int64_t tokens = 0; ///< Of the fullest rank.
  std::int64_t expected_ps = 0;
  std::int64_t measured_ps = 0;
  std::int64_t rows = 0;     ///< Sequences of that rank; 0 = what follows was not measured.
  std::int64_t extra_ps = 0; ///< Of measured_ps: sampling and drafting.
  std::int64_t size = 0;     ///< Tokens of the recorded graph that ran; 0 = none.
  std::int64_t curve_ps = 0; ///< What the table alone says of that size.
};

/// Chooses draft lengths for one step of all ranks that step together.
///
/// Contract, on top of the one in policy.hpp:
///   Cost     O(drafts · log drafts); 20 us for 256 sequences of 5 drafts
///   Errors   always a value
///   @post    0 <= lengths[i] <= drafts of row i
///
/// Source: policies.md section 5; DSpark.
class DraftLengthPolicy : public Policy {
public:
  virtual Decision<DraftLengths> choose(const DraftQuery& query,
                                        const PolicyContext& ctx) noexcept = 0;
  virtual void observe(const DraftOutcome& /*outcome*/) noexcept {}
};

/// Ok, or an error that says which rule of the interface the decision breaks. Pure.
Status validate(const Decision<DraftLengths>& decision, const DraftQuery& query);

} // namespace troupe::sched
