// Eviction from the ends of chains inwards, by any score.

#pragma once

#include "schedulers/model/queue_estimate.hpp"
#include "schedulers/policy/retention_policy.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe::sched {

/// Takes the unit with the lowest score among those that are unused and have no stored child, until
/// enough bytes are free; a parent joins when its last child went. Equal scores: the deeper unit,
/// then the lower hash.
template <class Scorer>
Decision<Eviction> evict_leaves(std::span<const RetentionUnit> units, std::int64_t bytes_needed,
                                const Scorer& scorer) {
  using Score = decltype(scorer(units[0]));
  using Key = std::tuple<Score, std::int64_t, std::uint64_t, std::uint32_t>;
  std::map<std::uint64_t, std::uint32_t> places;
  std::vector<std::int64_t> children;
  for (std::uint32_t i = 0; i < units.size(); ++i) {
    places.emplace(units[i].hash, i);
    children.push_back(units[i].children);
  }
  std::set<Key> leaves;
  const auto offer = [&](std::uint32_t i) {
    if (units[i].refs != 0 || children[i] != 0) return;
    leaves.emplace(scorer(units[i]), -units[i].depth, units[i].hash, i);
  };
  for (std::uint32_t i = 0; i < units.size(); ++i)
    offer(i);
  Eviction eviction;
  while (eviction.bytes < bytes_needed && !leaves.empty()) {
    const std::uint32_t i = std::get<3>(*leaves.begin());
    leaves.erase(leaves.begin());
    eviction.units.push_back(i);
    eviction.bytes = add_saturated(eviction.bytes, units[i].bytes);
    const auto parent = places.find(units[i].parent);
    if (units[i].parent == 0 || parent == places.end()) continue;
    if (--children[parent->second] == 0) offer(parent->second);
  }
  if (bytes_needed <= 0 || units.empty()) return {std::nullopt, Reason::nothing_to_do};
  if (eviction.units.empty()) return {std::nullopt, Reason::no_room};
  const bool enough = eviction.bytes >= bytes_needed;
  return {std::move(eviction), enough ? Reason::lowest_score : Reason::no_room};
}

} // namespace troupe::sched
