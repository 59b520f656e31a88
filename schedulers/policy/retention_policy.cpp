#include "schedulers/policy/retention_policy.hpp"

#include <cstddef>
#include <map>

namespace troupe::sched {
namespace {

Status broken(const char* what) { return Status(ErrorCode::bad_argument, what); }

} // namespace

Status validate(const Decision<StorePlan>& decision, const StoreQuery& query) {
  if (decision.reason == Reason::unset) return broken("a decision carries no reason");
  if (!decision.value) return broken("storing without an answer");
  if (decision.value->store && query.units < 1) return broken("nothing is stored");
  if (decision.value->store && decision.value->expires_us < query.expires_us) {
    return broken("a unit expires before its longest-lived holder wants");
  }
  return {};
}

Status validate(const Decision<Eviction>& decision, std::span<const RetentionUnit> units,
                std::int64_t bytes_needed) {
  if (decision.reason == Reason::unset) return broken("a decision carries no reason");
  if (!decision.value) return {};
  std::map<std::uint64_t, std::int64_t> left; // Children still stored, by the hash of the parent.
  for (const RetentionUnit& unit : units)
    left[unit.hash] = unit.children;
  std::vector<bool> gone(units.size(), false);
  std::int64_t bytes = 0;
  for (const std::uint32_t place : decision.value->units) {
    if (place >= units.size() || gone[place]) return broken("a unit goes twice or is unknown");
    if (bytes >= bytes_needed) return broken("more goes than is needed");
    const RetentionUnit& unit = units[place];
    if (unit.refs != 0) return broken("a unit in use goes");
    if (left[unit.hash] != 0) return broken("a unit goes before its children");
    gone[place] = true;
    bytes += unit.bytes;
    if (const auto parent = left.find(unit.parent); unit.parent != 0 && parent != left.end()) {
      --parent->second;
    }
  }
  return bytes == decision.value->bytes ? Status{} : broken("an eviction that miscounts its bytes");
}

} // namespace troupe::sched
