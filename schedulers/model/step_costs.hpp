// Time of a verification step from its tokens, as measured at start-up on a grid of sizes.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

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
    return read(next, tokens, [&](Point last) { return highest_until(last); });
  }

private:
  friend class StepCostWalk;
  using Point = std::span<const CostPoint>::iterator;

  /// @param next  first point of at least `tokens`, or the end
  /// @param highest_until  the largest time up to and with a point
  template <class Highest>
  std::int64_t read(Point next, std::int64_t tokens, const Highest& highest_until) const noexcept {
    if (curve == CostCurve::graphs) {
      if (next == points.end()) return kNever;
      return next->ps + token_ps * next->tokens + extra_ps;
    }
    if (next != points.end() && (next->tokens <= captured_max || tokens == next->tokens)) {
      return highest_until(next) + token_ps * next->tokens + extra_ps;
    }
    return between(next, tokens, highest_until) + token_ps * tokens + extra_ps;
  }

  /// Monotone: no size is cheaper than a smaller one.
  std::int64_t highest_until(Point last) const noexcept {
    std::int64_t ps = 0;
    for (Point point = points.begin(); point <= last; ++point)
      ps = std::max(ps, point->ps);
    return ps;
  }

  /// On the line through the neighbours, or through the last two points.
  template <class Highest>
  std::int64_t between(Point next, std::int64_t tokens,
                       const Highest& highest_until) const noexcept {
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

/// Reads a table at sizes that never fall: each of them in constant time but for the points passed.
class StepCostWalk {
public:
  /// @pre `costs` has points and outlives this
  explicit StepCostWalk(const StepCosts& costs) : costs_(costs), next_(costs.points.begin()) {
    std::int64_t ps = 0;
    for (const CostPoint& point : costs.points) {
      ps = std::max(ps, point.ps);
      highest_.push_back(ps);
    }
  }

  /// StepCosts::at(). @pre `tokens` is not below the one before
  std::int64_t at(std::int64_t tokens) noexcept {
    while (next_ != costs_.points.end() && next_->tokens < tokens)
      ++next_;
    return costs_.read(next_, tokens, [&](StepCosts::Point last) {
      return highest_[static_cast<std::size_t>(last - costs_.points.begin())];
    });
  }

  /// Largest size up to which at() stays what it was last; that size itself where it rises.
  std::int64_t same_until(std::int64_t tokens) const noexcept {
    const bool is_stair = costs_.curve == CostCurve::graphs ||
                          (next_ != costs_.points.end() && next_->tokens <= costs_.captured_max);
    if (!is_stair) return tokens;
    return next_ == costs_.points.end() ? std::numeric_limits<std::int64_t>::max() : next_->tokens;
  }

private:
  const StepCosts& costs_;
  StepCosts::Point next_;
  std::vector<std::int64_t> highest_; ///< [points] up to each of them.
};

} // namespace troupe::sched
