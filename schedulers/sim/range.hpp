// A number that a scenario leaves open: drawn anew for each seed.

#pragma once

#include "schedulers/core/rng.hpp"

#include <cstdint>

namespace troupe::sim {

/// Both ends included; equal ends are a plain number and cost no draw.
struct Range {
  std::int64_t low = 0;
  std::int64_t high = 0;

  constexpr Range() = default;
  constexpr Range(std::int64_t fixed) : low(fixed), high(fixed) {} // NOLINT
  constexpr Range(std::int64_t from, std::int64_t to) : low(from), high(to) {}
  bool operator==(const Range&) const = default;
};

/// A number of the range. @pre low <= high
constexpr std::int64_t draw_from(const Range& range, Rng& rng) {
  if (range.high <= range.low) return range.low;
  const auto width = static_cast<std::uint64_t>(range.high - range.low) + 1;
  return range.low + static_cast<std::int64_t>(rng.below(width));
}

/// True `permille` times of a thousand; costs no draw when the answer is certain.
constexpr bool chance(std::int64_t permille, Rng& rng) {
  if (permille <= 0 || permille >= 1000) return permille > 0;
  return rng.below(1000) < static_cast<std::uint64_t>(permille);
}

} // namespace troupe::sim
