// Time of a verification step from its tokens, as measured at start-up on a grid of sizes.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace troupe::sched {

/// One measured size.
struct CostPoint {
  std::int64_t tokens = 0;
  std::int64_t ps = 0;
};

/// How times between and beyond the measured sizes are read.
enum class CostCurve : std::uint8_t {
  /// Up to `captured_max` the time of the next measured size, a straight line beyond; never falls.
  staircase,
  /// The time of the next measured size as it was measured, nothing beyond the largest.
  graphs,
};

/// A table of times, with what does not depend on its sizes.
struct StepCosts {
  std::span<const CostPoint> points; ///< Ascending by tokens; empty = not measured.
  CostCurve curve = CostCurve::staircase;
  std::int64_t captured_max = 0; ///< Largest size that runs as a recorded graph; 0 = none.
  std::int64_t token_ps = 0;     ///< Per token of the size that runs: measured above the table.
  std::int64_t extra_ps = 0;     ///< Drafting and sampling of the step.

  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  /// Time of a step of `tokens`; kNever where it cannot run. @pre points not empty
  std::int64_t at(std::int64_t tokens) const noexcept {
    const auto next = std::lower_bound(
        points.begin(), points.end(), tokens,
        [](const CostPoint& point, std::int64_t wanted) { return point.tokens < wanted; });
    if (curve == CostCurve::graphs) {
      if (next == points.end()) return kNever;
      return next->ps + token_ps * next->tokens + extra_ps;
    }
    if (next != points.end() && (next->tokens <= captured_max || tokens == next->tokens)) {
      return highest_until(next) + token_ps * next->tokens + extra_ps;
    }
    return between(next, tokens) + token_ps * tokens + extra_ps;
  }

private:
  using Point = std::span<const CostPoint>::iterator;

  /// Monotone: no size is cheaper than a smaller one.
  std::int64_t highest_until(Point last) const noexcept {
    std::int64_t ps = 0;
    for (Point point = points.begin(); point <= last; ++point)
      ps = std::max(ps, point->ps);
    return ps;
  }

  /// On the line through the neighbours, or through the last two points.
  std::int64_t between(Point next, std::int64_t tokens) const noexcept {
    if (points.size() == 1) return points[0].ps;
    if (next == points.begin()) ++next;
    if (next == points.end()) --next;
    const Point before = next - 1;
    const std::int64_t low = highest_until(before);
    const std::int64_t high = highest_until(next);
    __extension__ using Signed128 = __int128;
    const Signed128 rise = static_cast<Signed128>(high - low) * (tokens - before->tokens);
    return std::max<std::int64_t>(
        0, low + static_cast<std::int64_t>(rise / (next->tokens - before->tokens)));
  }
};

} // namespace troupe::sched
