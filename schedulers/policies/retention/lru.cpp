#include "schedulers/policies/retention/lru.hpp"

#include "schedulers/policies/retention/leaves.hpp"

#include <limits>

namespace troupe::sched {

Decision<StorePlan> LruRetention::store(const StoreQuery& query,
                                        const PolicyContext& /*ctx*/) noexcept {
  if (query.units < 1) return {StorePlan{}, Reason::nothing_to_do};
  return {StorePlan{true, std::numeric_limits<std::int64_t>::max()}, Reason::admitted};
}

Decision<Eviction> LruRetention::evict(std::span<const RetentionUnit> units,
                                       std::int64_t bytes_needed,
                                       const PolicyContext& /*ctx*/) noexcept {
  return evict_leaves(units, bytes_needed,
                      [](const RetentionUnit& unit) { return unit.last_use_us; });
}

} // namespace troupe::sched
