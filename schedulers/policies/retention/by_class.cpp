#include "schedulers/policies/retention/by_class.hpp"

#include "schedulers/model/integer_math.hpp"
#include "schedulers/policies/retention/leaves.hpp"

#include <algorithm>
#include <utility>

namespace troupe::sched {
namespace {

/// Chance of reuse right after a use, in eighths of that of an agent.
std::int64_t reuse_share(RetentionClass kind) {
  return kind == RetentionClass::once ? 1 : kind == RetentionClass::chat ? 4 : 8;
}

} // namespace

std::int64_t ByClassRetention::ttl_us(RetentionClass kind) const noexcept {
  const std::int64_t seconds = kind == RetentionClass::once   ? options_.once_ttl_s
                               : kind == RetentionClass::chat ? options_.chat_ttl_s
                                                              : options_.agent_ttl_s;
  return seconds * 1'000'000;
}

Decision<StorePlan> ByClassRetention::store(const StoreQuery& query,
                                            const PolicyContext& ctx) noexcept {
  if (query.units < 1) return {StorePlan{}, Reason::nothing_to_do};
  const bool conversation = query.kind != RetentionClass::once;
  const bool wanted =
      conversation ? query.units >= options_.units_min : query.times_seen >= options_.seen_min;
  // A write cost of 0 is not known, or nothing.
  const bool pays = conversation || query.write_ps == 0 ||
                    scale(query.saved_ps, query.reuse_permille, 1000) >= query.write_ps;
  if (!wanted || !pays) return {StorePlan{}, Reason::not_worth_it};
  const std::int64_t until =
      add_saturated(std::max<std::int64_t>(0, ctx.now_us), ttl_us(query.kind));
  return {StorePlan{true, std::max(until, query.expires_us)}, Reason::admitted};
}

Decision<Eviction> ByClassRetention::evict(std::span<const RetentionUnit> units,
                                           std::int64_t bytes_needed,
                                           const PolicyContext& ctx) noexcept {
  return evict_leaves(units, bytes_needed, [&](const RetentionUnit& unit) {
    if (unit.expires_us < ctx.now_us)
      return std::pair<std::int64_t, std::int64_t>{0, unit.expires_us};
    const std::int64_t age_us = std::max<std::int64_t>(0, ctx.now_us - unit.last_use_us);
    const std::int64_t quarters = scale(age_us, 4 << 16, ttl_us(unit.kind));
    const auto fresh = static_cast<std::int64_t>(power_of_half(quarters));
    const std::int64_t chance = fresh / 8 * reuse_share(unit.kind);
    return std::pair<std::int64_t, std::int64_t>{
        1, scale(unit.saved_ps, chance, std::max<std::int64_t>(1, unit.bytes))};
  });
}

} // namespace troupe::sched
