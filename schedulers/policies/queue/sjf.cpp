#include "schedulers/policies/queue/sjf.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace troupe::sched {

Decision<Order> SjfQueue::order(std::span<const RequestView> waiting,
                                const PolicyContext& /*ctx*/) noexcept {
  Order order;
  order.positions.resize(waiting.size());
  std::iota(order.positions.begin(), order.positions.end(), 0U);
  std::sort(order.positions.begin(), order.positions.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(waiting[a].work_ps, waiting[a].arrival_us, waiting[a].ref) <
           std::tie(waiting[b].work_ps, waiting[b].arrival_us, waiting[b].ref);
  });
  return {std::move(order), Reason::lowest_score};
}

} // namespace troupe::sched
