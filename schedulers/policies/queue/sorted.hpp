// Queue orders by a key of each request.

#pragma once

#include "schedulers/policy/queue_policy.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace troupe::sched {

/// Positions of `waiting` by rising key; equal keys by arrival, then by id.
template <class Key>
Order order_by(std::span<const RequestView> waiting, const Key& key) {
  using Value = decltype(key(waiting[0]));
  std::vector<Value> keys;
  keys.reserve(waiting.size());
  for (const RequestView& request : waiting)
    keys.push_back(key(request));
  Order order;
  order.positions.resize(waiting.size());
  std::iota(order.positions.begin(), order.positions.end(), 0U);
  std::sort(order.positions.begin(), order.positions.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (keys[a] < keys[b]) return true;
    if (keys[b] < keys[a]) return false;
    if (waiting[a].arrival_us != waiting[b].arrival_us) {
      return waiting[a].arrival_us < waiting[b].arrival_us;
    }
    return waiting[a].ref < waiting[b].ref;
  });
  return order;
}

} // namespace troupe::sched
