// How much of everything a cluster needs: traffic of the store, days of retention, prefill against
// decode ranks, sequences of a decode rank.
//
// Shares are in millionths, factors in thousandths. Pure; results round towards zero and saturate.

#pragma once

#include "schedulers/model/integer_math.hpp"
#include "schedulers/model/queue_estimate.hpp"
#include "schedulers/model/step_costs.hpp"

#include <algorithm>
#include <cstdint>

namespace troupe::sched {

/// What one prefill GPU moves, in bytes a second.
struct StoreTraffic {
  std::int64_t read = 0;  ///< KV of cached tokens, from the store.
  std::int64_t push = 0;  ///< KV of all tokens, to decode ranks.
  std::int64_t write = 0; ///< KV of computed tokens, to the store.

  std::int64_t total() const noexcept { return add_saturated(add_saturated(read, push), write); }
};

/// Traffic at `uncached_per_s` computed tokens a second when the share `hit` of all input is
/// cached. Source: policies.md section 7.4. @pre 0 <= hit_millionths < 1'000'000
constexpr StoreTraffic store_traffic(std::int64_t uncached_per_s, std::int64_t hit_millionths,
                                     std::int64_t token_bytes) noexcept {
  constexpr std::int64_t kOne = 1'000'000;
  const std::int64_t write = multiply_saturated(uncached_per_s, token_bytes);
  const std::int64_t missed = kOne - hit_millionths;
  return {scale(write, hit_millionths, missed), scale(write, kOne, missed), write};
}

/// How long KV stays before its room is needed again: thousandths of a day.
/// Source: policies.md section 7.4. @pre new_bytes_per_day > 0
constexpr std::int64_t retention_millidays(std::int64_t gpus, std::int64_t bytes_per_gpu,
                                           std::int64_t new_bytes_per_day) noexcept {
  return scale(multiply_saturated(gpus, 1000), bytes_per_gpu, new_bytes_per_day);
}

/// Time of `operations` copies of `bytes` in all: each costs its start, the link the bytes.
/// Source: policies.md section 7.4. @pre bytes_per_s > 0
constexpr std::int64_t copy_time_ps(std::int64_t operations, std::int64_t operation_ps,
                                    std::int64_t bytes, std::int64_t bytes_per_s) noexcept {
  return add_saturated(multiply_saturated(operations, operation_ps),
                       scale(bytes, 1'000'000'000'000, bytes_per_s));
}

/// What decides how many ranks prefill and how many decode.
struct TrafficMix {
  std::int64_t input_per_output_permille = 0; ///< Input tokens, cached ones too, for an output one.
  std::int64_t hit_millionths = 0;            ///< Of the input.
  std::int64_t prefill_per_s = 1;             ///< Computed tokens a second of a prefill GPU.
  std::int64_t decode_per_s = 1;              ///< Output tokens a second of a decode GPU.
};

/// Prefill GPUs that one decode GPU keeps busy, in thousandths.
/// Source: policies.md section 8, PD ratio. @pre prefill_per_s > 0
constexpr std::int64_t prefill_per_decode_permille(const TrafficMix& mix) noexcept {
  constexpr std::int64_t kOne = 1'000'000;
  const Int128 computed =
      static_cast<Int128>(mix.input_per_output_permille) * (kOne - mix.hit_millionths);
  return saturate(computed * mix.decode_per_s / mix.prefill_per_s / kOne);
}

/// How a decode rank verifies, and what a user is promised.
struct DecodeTarget {
  std::int64_t emitted_permille = 1000; ///< Tokens that come out a sequence and step.
  std::int64_t tokens_permille = 1000;  ///< Tokens that a sequence has in a step: 1 + drafts.
  std::int64_t user_tokens_per_s = 1;   ///< Speed of one sequence at least.
};

/// Most sequences of a rank whose steps are short enough for the target, up to `most`; 0 when one
/// is too many. What is left of it when `n` online sequences run may be filled with offline ones.
/// Source: policies.md section 8, PD ratio and offline mixing. @pre costs.points not empty
inline std::int64_t sequences_within(const StepCosts& costs, const DecodeTarget& target,
                                     std::int64_t most) noexcept {
  const auto fast_enough = [&](std::int64_t sequences) {
    const std::int64_t tokens = scale(sequences, target.tokens_permille, 1000) +
                                (multiply_saturated(sequences, target.tokens_permille) % 1000 != 0);
    const std::int64_t step_ps = costs.at(tokens);
    // emitted / step >= speed; a thousandth of a token a picosecond is 10^9 tokens a second.
    return step_ps != StepCosts::kNever &&
           static_cast<Int128>(target.emitted_permille) * 1'000'000'000 >=
               static_cast<Int128>(target.user_tokens_per_s) * step_ps;
  };
  std::int64_t fits = 0;
  std::int64_t beyond = std::max<std::int64_t>(0, most) + 1;
  while (beyond - fits > 1) {
    const std::int64_t middle = fits + (beyond - fits) / 2;
    (fast_enough(middle) ? fits : beyond) = middle;
  }
  return fits;
}

} // namespace troupe::sched
