// Stores everything; what was used longest ago goes first.

#pragma once

#include "schedulers/policy/retention_policy.hpp"

namespace troupe::sched {

/// Units in use stay, and so do units with stored children. Takes no options.
///
/// Source: policies.md section 7.3, the replay of recorded traces.
class LruRetention final : public RetentionPolicy {
public:
  Decision<StorePlan> store(const StoreQuery& query, const PolicyContext& ctx) noexcept override;
  Decision<Eviction> evict(std::span<const RetentionUnit> units, std::int64_t bytes_needed,
                           const PolicyContext& ctx) noexcept override;
};

} // namespace troupe::sched
