// The cost curve of recorded graphs: which sizes are recorded, and how replays become one time.

#pragma once

#include "schedulers/model/integer_math.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::sched {

/// Sizes in tokens, up to `largest`: 1, 2, 4, 8, then every 8.
/// Source: policies.md section 5.2, released engine.
inline std::vector<std::int64_t> graph_sizes(std::int64_t largest) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 1; size <= largest; size += size < 8 ? size : 8)
    sizes.push_back(size);
  return sizes;
}

/// Mean without the shortest and the longest; of at most two the mean. 0 for none.
inline std::int64_t trimmed_mean(std::vector<std::int64_t> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t cut = values.size() > 2 ? 1 : 0;
  Int128 sum = 0;
  for (std::size_t i = cut; i < values.size() - cut; ++i)
    sum += values[i];
  return saturate(sum / static_cast<std::int64_t>(values.size() - 2 * cut));
}

/// The middle one; of an even number the mean of both middle ones. 0 for none.
inline std::int64_t median(std::vector<std::int64_t> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return saturate((static_cast<Int128>(values[middle - 1]) + values[middle]) / 2);
}

} // namespace troupe::sched
