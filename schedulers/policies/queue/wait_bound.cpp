#include "schedulers/policies/queue/wait_bound.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

namespace troupe::sched {

Decision<Order> WaitBoundQueue::order(std::span<const RequestView> waiting,
                                      const PolicyContext& ctx) noexcept {
  Decision<Order> decision = inner_->order(waiting, ctx);
  if (!decision.value || decision.value->positions.size() != waiting.size()) return decision;
  auto& positions = decision.value->positions;
  const auto overdue = [&](std::uint32_t i) {
    return i < waiting.size() && ctx.now_us - waiting[i].arrival_us >= options_.max_us;
  };
  const auto end = std::stable_partition(positions.begin(), positions.end(), overdue);
  if (end == positions.begin()) return decision;
  std::sort(positions.begin(), end, [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(waiting[a].arrival_us, waiting[a].ref) <
           std::tie(waiting[b].arrival_us, waiting[b].ref);
  });
  decision.reason = Reason::waited_longest;
  return decision;
}

} // namespace troupe::sched
