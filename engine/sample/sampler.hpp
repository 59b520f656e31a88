// Draws one token from one row of logits.
//
// The result depends on the arguments and on nothing else: sums run over ids ascending in double,
// ties go to the lower id, and the random number is a function of seed and output position. So a
// moved, resumed or re-batched request draws the same tokens.

#pragma once

#include "engine/step.hpp"
#include "schedulers/core/result.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::engine {

/// Draws from `logits` ([vocab], float32): temperature, then top-k, then top-p; `suppressed` ids
/// are never drawn. Temperature 0 takes the largest logit.
///
/// Log-probabilities are those of the raw logits (no temperature, nothing suppressed). With
/// `plan.top_logprobs` = -1 none is computed and logprob_bits is 0; with n > 0 the n largest are
/// appended to `top`, best first.
///
///   Pure     but for `top`
///   Cost     one pass for greedy; with top-k or top-p also a selection, never a full sort
///   Errors   engine_failed: a logit is not finite; invalid_request: every id is suppressed
Result<TokenLogprob> sample_token(std::span<const float> logits, const SamplingPlan& plan,
                                  std::span<const std::int32_t> suppressed,
                                  std::vector<TokenLogprob>& top);

} // namespace troupe::engine
