// Shortest job first, by the prefill work that is left.
//
// Long requests may wait without bound under a steady stream of short ones.

#pragma once

#include "schedulers/policy/queue_policy.hpp"

namespace troupe::sched {

/// Orders by (remaining work, arrival, id). Takes no options.
class SjfQueue final : public QueuePolicy {
public:
  Decision<Order> order(std::span<const RequestView> waiting,
                        const PolicyContext& ctx) noexcept override;
};

} // namespace troupe::sched
