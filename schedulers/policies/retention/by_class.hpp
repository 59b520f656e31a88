// Each class of traffic has its time to live; under pressure the least useful bytes go first.

#pragma once

#include "schedulers/policy/retention_policy.hpp"

#include <cstdint>

namespace troupe::sched {

struct ByClassOptions {
  /// How long a unit is kept after its last use. Unit: seconds. Defaults 3600, 604800 (7 days) and
  /// 259200 (3 days). Range 1 to 31536000. Hot: yes.
  std::int64_t once_ttl_s = 3'600;
  std::int64_t chat_ttl_s = 604'800;
  std::int64_t agent_ttl_s = 259'200;
  /// One-shot traffic is stored when its prefix came by so often. Unit: times. Default 2.
  /// Range 1 to 1000. Hot: yes.
  std::int64_t seen_min = 2;
  /// Chat and agent turns are stored from so many units beyond the hit on. Unit: units. Default 2.
  /// Range 1 to 1000. Hot: yes.
  std::int64_t units_min = 2;
};

/// Expired units go first, the longest expired before the others; then the lowest expected saving
/// per byte: chance of reuse, halving with each quarter of the time to live that has passed since
/// the last use, times what a hit saves. A hit renews the time of every unit it uses; a unit of
/// several classes keeps the latest. Expiry only makes a unit evictable: it stays usable.
///
/// Source: policies.md section 7.2.
class ByClassRetention final : public RetentionPolicy {
public:
  explicit ByClassRetention(const ByClassOptions& options) : options_(options) {}

  Decision<StorePlan> store(const StoreQuery& query, const PolicyContext& ctx) noexcept override;
  Decision<Eviction> evict(std::span<const RetentionUnit> units, std::int64_t bytes_needed,
                           const PolicyContext& ctx) noexcept override;

private:
  std::int64_t ttl_us(RetentionClass kind) const noexcept;

  ByClassOptions options_;
};

} // namespace troupe::sched
