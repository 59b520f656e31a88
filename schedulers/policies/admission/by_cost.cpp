#include "schedulers/policies/admission/by_cost.hpp"

#include "schedulers/model/queue_estimate.hpp"

#include <algorithm>
#include <limits>

namespace troupe::sched {

Decision<Admission> ByCostAdmission::admit(const RequestView& request, const LoadView& load,
                                           const PolicyContext& ctx) noexcept {
  if (request.deadline_us <= 0) return {Admission::admit, Reason::no_target};
  if (load.ranks <= 0) return {Admission::admit, Reason::admitted};
  constexpr std::int64_t kPicosPerMicro = 1'000'000;
  const CostModel& model = *ctx.cost_model;
  const std::int64_t waiting_ps = with_step_overhead(
      model.marginal_ps(load.waiting_tokens, 0) / load.ranks, model.step_ps, ctx.step_budget_ps);
  const std::int64_t own_ps = steps_ps(model.marginal_ps(request.remaining(), request.done),
                                       model.step_ps, ctx.step_budget_ps);
  // Nothing is loaded from a store, and a handoff is not estimated.
  const std::int64_t queue_ps = add_saturated(waiting_ps, load.least_work_ps);
  const std::int64_t ttft_us = ttft_ps({.queue_ps = queue_ps, .own_ps = own_ps}) / kPicosPerMicro;
  const std::int64_t left_us = std::max<std::int64_t>(0, request.deadline_us - ctx.now_us);
  // A deadline is at most 2^63 / 11000 microseconds away (26 years), so this does not overflow.
  const std::int64_t allowed_us = left_us > std::numeric_limits<std::int64_t>::max() / 11'000
                                      ? std::numeric_limits<std::int64_t>::max()
                                      : left_us + left_us * options_.margin_permille / 1000;
  if (ttft_us > allowed_us) return {Admission::reject, Reason::misses_deadline};
  return {Admission::admit, Reason::meets_deadline};
}

} // namespace troupe::sched
