// First come, first served: by arrival of the first attempt, so that retries keep their place.

#pragma once

#include "schedulers/policy/queue_policy.hpp"

namespace troupe::sched {

/// Takes no options.
class FcfsQueue final : public QueuePolicy {
public:
  Decision<Order> order(std::span<const RequestView> waiting,
                        const PolicyContext& ctx) noexcept override;
};

} // namespace troupe::sched
