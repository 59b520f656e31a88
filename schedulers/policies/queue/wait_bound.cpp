#include "schedulers/policies/queue/wait_bound.hpp"

#include "schedulers/core/check.hpp"

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

WaitBoundOptions wait_bound_options(OptionTable& table) {
  constexpr std::int64_t kYearUs = 31'536'000'000'000;
  return {.max_us = table.integer("wait_bound.max_us", 0, 1, kYearUs)};
}

std::unique_ptr<Policy> with_wait_bound(std::unique_ptr<Policy> policy,
                                        const WaitBoundOptions& options) {
  if (options.max_us == 0) return policy;
  auto* queue = dynamic_cast<QueuePolicy*>(policy.get());
  TROUPE_CHECK(queue != nullptr, "only a queue has a wait bound");
  static_cast<void>(policy.release());
  return std::make_unique<WaitBoundQueue>(std::unique_ptr<QueuePolicy>(queue), options);
}

} // namespace troupe::sched
