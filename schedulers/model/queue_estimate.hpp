// Queue estimate of prefill work: one definition for router, admission and simulator.
//
// Source: policies.md section 2.1.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace troupe::sched {

/// a + b for a, b >= 0, cut off at the int64 range.
constexpr std::int64_t add_saturated(std::int64_t a, std::int64_t b) noexcept {
  return a > std::numeric_limits<std::int64_t>::max() - b ? std::numeric_limits<std::int64_t>::max()
                                                          : a + b;
}

/// (1 + t0/tau)·work: marginal work with the fixed parts of the steps it will take. Without a
/// budget (0) the work alone.
constexpr std::int64_t with_step_overhead(std::int64_t work_ps, std::int64_t step_ps,
                                          std::int64_t step_budget_ps) noexcept {
  __extension__ using Signed128 = __int128;
  if (step_budget_ps <= 0) return work_ps;
  const Signed128 share = static_cast<Signed128>(work_ps) * step_ps / step_budget_ps;
  constexpr Signed128 kMax = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min(kMax, work_ps + share));
}

/// Time of the steps of one request alone: its work and one fixed part per started step.
constexpr std::int64_t steps_ps(std::int64_t work_ps, std::int64_t step_ps,
                                std::int64_t step_budget_ps) noexcept {
  if (step_budget_ps <= step_ps) return add_saturated(work_ps, step_ps);
  __extension__ using Signed128 = __int128;
  const std::int64_t per_step = step_budget_ps - step_ps;
  const Signed128 steps = std::max<std::int64_t>(1, work_ps / per_step + (work_ps % per_step != 0));
  constexpr Signed128 kMax = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min(kMax, work_ps + steps * step_ps));
}

/// What a first token waits for. Unit: ps.
struct TtftTerms {
  std::int64_t lookup_ps = 0;  ///< What of the prompt is cached?
  std::int64_t load_ps = 0;    ///< Of the cached KV, while the request is queued.
  std::int64_t queue_ps = 0;   ///< W of its rank, and its share of what is not routed yet.
  std::int64_t own_ps = 0;     ///< Its own steps.
  std::int64_t handoff_ps = 0; ///< To the rank that decodes.
};

constexpr std::int64_t ttft_ps(const TtftTerms& terms) noexcept {
  const std::int64_t before =
      add_saturated(terms.lookup_ps, std::max(terms.load_ps, terms.queue_ps));
  return add_saturated(add_saturated(before, terms.own_ps), terms.handoff_ps);
}

} // namespace troupe::sched
