// Time of a chunk or a decode step from token and context counts, in integer picoseconds.
//
// Source: policies.md sections 1.1 to 1.3 and 3.1, with exact integer arithmetic.

#pragma once

#include <cstdint>

namespace troupe::sched {

/// Coefficients of one kind of rank. All in picoseconds, all >= 0.
struct CostModel {
  std::int64_t step_ps = 2'000'000'000; ///< t0: fixed part of a step.
  std::int64_t token_ps = 400'000'000;  ///< a: per new token.
  std::int64_t pair_ps = 30'000;        ///< b: per (new token, visible token) pair.
  std::int64_t image_patch_ps = 0;
  std::int64_t sequence_ps = 400'000'000; ///< c_q: decode, per sequence in the step.
  std::int64_t context_token_ps = 30'000; ///< kappa: decode, per token of context.
  bool operator==(const CostModel&) const = default;

  /// a·n + b·(n·c + n(n+1)/2): a chunk of n tokens after c, without the fixed part. Saturates.
  std::int64_t marginal_ps(std::int64_t n, std::int64_t c) const noexcept;

  /// step_ps + marginal_ps(n, c). Saturates.
  std::int64_t chunk_ps(std::int64_t n, std::int64_t c) const noexcept;

  /// c_q·sequences + kappa·context_tokens: what balancing compares. Saturates.
  std::int64_t decode_load_ps(std::int64_t sequences, std::int64_t context_tokens) const noexcept {
    // Asked for each rank of a cluster: what no number overflows in is computed here.
    std::int64_t of_sequences = 0;
    std::int64_t of_context = 0;
    std::int64_t sum = 0;
    const bool positive = (sequence_ps | sequences | context_token_ps | context_tokens) >= 0;
    if (positive && !__builtin_mul_overflow(sequence_ps, sequences, &of_sequences) &&
        !__builtin_mul_overflow(context_token_ps, context_tokens, &of_context) &&
        !__builtin_add_overflow(of_sequences, of_context, &sum)) {
      return sum;
    }
    return saturated_load_ps(sequences, context_tokens);
  }

  /// Largest n >= 0 with marginal_ps(n, c) <= budget_ps: T(n) <= budget < T(n+1). Raw value, not
  /// clamped to any prompt. A free model (token_ps = pair_ps = 0) gives int64 max.
  std::int64_t largest_chunk(std::int64_t budget_ps, std::int64_t c) const noexcept;

private:
  /// The load where a product overflows or a number is negative, which counts as 0.
  std::int64_t saturated_load_ps(std::int64_t sequences,
                                 std::int64_t context_tokens) const noexcept;
};

} // namespace troupe::sched
