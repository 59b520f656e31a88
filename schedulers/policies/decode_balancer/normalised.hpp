// Count and context of a rank against the sums over all ranks, on one common scale.

#pragma once

#include "schedulers/model/integer_math.hpp"
#include "schedulers/model/queue_estimate.hpp"
#include "schedulers/model/rank_view.hpp"

#include <algorithm>
#include <cstdint>
#include <span>

namespace troupe::sched {

/// n·ΣK and K·Σn: n over mean n and K over mean K, both times the same positive number. A sum of
/// zero counts as one, so that the other part decides.
struct Normalised {
  std::int64_t sum_count = 0;
  std::int64_t sum_context = 0;

  explicit Normalised(std::span<const RankView> ranks) {
    for (const RankView& rank : ranks) {
      sum_count = add_saturated(sum_count, rank.running);
      sum_context = add_saturated(sum_context, rank.context_tokens);
    }
    sum_count = std::max<std::int64_t>(1, sum_count);
    sum_context = std::max<std::int64_t>(1, sum_context);
  }

  std::int64_t count(const RankView& rank) const noexcept {
    return multiply_saturated(rank.running, sum_context);
  }
  std::int64_t context(const RankView& rank) const noexcept {
    return multiply_saturated(rank.context_tokens, sum_count);
  }
};

} // namespace troupe::sched
