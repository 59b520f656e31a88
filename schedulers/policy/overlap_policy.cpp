#include "schedulers/policy/overlap_policy.hpp"

#include "schedulers/model/integer_math.hpp"

#include <algorithm>

namespace troupe::sched {

Status validate(const Decision<OverlapPlan>& decision, const OverlapView& view) {
  const auto broken = [](const char* what) { return Status(ErrorCode::bad_argument, what); };
  if (decision.reason == Reason::unset) return broken("a decision carries no reason");
  if (!decision.value) return broken("an overlap without an answer");
  const OverlapPlan& plan = *decision.value;
  if (!plan.plan_now && view.plans_held == 0 && view.sequences > 0) {
    return broken("an idle rank with work is told to wait");
  }
  if (plan.plan_now && view.plans_held > 0 && view.blocks_most > view.blocks_free) {
    return broken("a step is planned on blocks that are not free yet");
  }
  if (plan.arrival_tokens < 1 || plan.arrival_tokens > 1 + view.drafts) {
    return broken("an arrival padded beyond its drafts");
  }
  return {};
}

std::int64_t step_period_ps(const StepTimes& times, bool ahead) noexcept {
  const std::int64_t host = times.schedule + times.prepare + times.post;
  if (!ahead) return host + times.device;
  return std::max(times.device, host) + times.launch_gap;
}

std::int64_t idle_millionths(const StepTimes& times, bool ahead) noexcept {
  const std::int64_t period = step_period_ps(times, ahead);
  return period <= 0 ? 0 : scale(period - times.device, 1'000'000, period);
}

std::int64_t masked_step_ps(std::int64_t verify_ps, std::int64_t copy_and_mask_ps,
                            std::int64_t sample_ps) noexcept {
  return std::max(verify_ps, copy_and_mask_ps) + sample_ps;
}

} // namespace troupe::sched
