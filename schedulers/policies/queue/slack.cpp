#include "schedulers/policies/queue/slack.hpp"

#include "schedulers/model/integer_math.hpp"
#include "schedulers/model/queue_estimate.hpp"
#include "schedulers/policies/queue/sorted.hpp"

#include <algorithm>

namespace troupe::sched {
namespace {

/// Spare time over service time, both in microseconds.
struct Slack {
  std::int64_t spare_us = 0;
  std::int64_t service_us = 1;
  bool operator<(const Slack& other) const {
    return ratio_less(spare_us, service_us, other.spare_us, other.service_us);
  }
};

} // namespace

Decision<Order> SlackQueue::order(std::span<const RequestView> waiting,
                                  const PolicyContext& ctx) noexcept {
  const auto time_us = [&](std::int64_t tokens, std::int64_t after) {
    constexpr std::int64_t kPicosPerMicro = 1'000'000;
    const std::int64_t work_ps = ctx.cost_model->marginal_ps(tokens, after);
    return std::max<std::int64_t>(
        1, steps_ps(work_ps, ctx.cost_model->step_ps, ctx.step_budget_ps) / kPicosPerMicro);
  };
  const auto slack = [&](const RequestView& request) {
    const std::int64_t service_us = time_us(request.total(), 0);
    const std::int64_t due_us =
        request.deadline_us > 0
            ? request.deadline_us
            : saturate(request.arrival_us +
                       static_cast<Int128>(service_us) * options_.slowdown_permille / 1000);
    const std::int64_t left_us = time_us(request.remaining(), request.done);
    return Slack{saturate(static_cast<Int128>(due_us) - ctx.now_us - left_us), service_us};
  };
  return {order_by(waiting, slack), Reason::lowest_score};
}

} // namespace troupe::sched
