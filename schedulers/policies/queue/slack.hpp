// Least time to spare first, measured in service times: bounds how much slower a request gets.

#pragma once

#include "schedulers/policy/queue_policy.hpp"

#include <cstdint>

namespace troupe::sched {

struct SlackOptions {
  /// Requests without a deadline are due this many service times after their arrival.
  /// Unit: thousandths (written as a number). Default 5000 = five times. Range 0.001 to 1000.
  /// Hot: yes.
  std::int64_t slowdown_permille = 5000;
};

/// Orders by (deadline - now - remaining) / service, remaining and service being the steps of what
/// is left and of the whole prompt; ties by arrival, then by id.
///
/// A long request gets more time, but in proportion: it does not wait for ever behind short ones.
/// Source: policies.md section 1.6; length-aware relative slack of Medha (arXiv 2409.17264).
class SlackQueue final : public QueuePolicy {
public:
  explicit SlackQueue(const SlackOptions& options) : options_(options) {}

  Decision<Order> order(std::span<const RequestView> waiting,
                        const PolicyContext& ctx) noexcept override;

private:
  SlackOptions options_;
};

} // namespace troupe::sched
