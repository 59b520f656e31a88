// Buckets of predicted work, the short ones first; who waits moves up.

#pragma once

#include "schedulers/policy/queue_policy.hpp"

#include <cstdint>

namespace troupe::sched {

struct BucketOptions {
  /// Work of the first bucket at most; each further one holds four times that. Unit: us.
  /// Default 50000. Range 1 to 10^9. Hot: yes.
  std::int64_t first_us = 50'000;
  /// Waiting that moves a request of bucket k up by one is this times 4^k. Unit: us.
  /// Default 125000. Range 1 to 10^9. Hot: yes.
  std::int64_t age_us = 125'000;
};

/// Orders by (bucket less the buckets its age is worth, arrival, id).
///
/// Any request reaches bucket 0 after at most age·k·4^k, from which on it is served in order of
/// arrival among those. Source: policies.md section 1.6.
class BucketQueue final : public QueuePolicy {
public:
  explicit BucketQueue(const BucketOptions& options) : options_(options) {}

  Decision<Order> order(std::span<const RequestView> waiting,
                        const PolicyContext& ctx) noexcept override;

private:
  BucketOptions options_;
};

/// Smallest k >= 0 with work <= first·4^k.
std::int64_t bucket_of(std::int64_t work_ps, const BucketOptions& options) noexcept;

/// bucket_of() less one for each age·4^k waited, not below 0.
std::int64_t bucket_after(std::int64_t bucket, std::int64_t waited_us,
                          const BucketOptions& options) noexcept;

} // namespace troupe::sched
