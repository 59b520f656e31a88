// How far measured steps lie from the table, learnt at powers of two of tokens.

#pragma once

#include "schedulers/model/integer_math.hpp"
#include "schedulers/model/step_costs.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace troupe::sched {

/// A moving mean of measured over expected time at 1, 2, 4, ... tokens, a straight line between, so
/// that no size has a cliff beside it.
///
/// Small deviations are taken as they are: log x is x - 1 within the clamp of 15 %.
struct Residuals {
  static constexpr std::int64_t kOne = 1'000'000;
  static constexpr std::int64_t kClamp = 150'000;
  static constexpr std::size_t kSizes = 24;

  std::array<std::int64_t, kSizes> off = {}; ///< [log2 tokens] deviation from 1, in millionths.

  std::int64_t at(std::int64_t tokens) const noexcept {
    const std::int64_t size = std::max<std::int64_t>(1, tokens);
    const std::size_t low = lower(size);
    if (low + 1 == kSizes) return off[low];
    const std::int64_t begin = std::int64_t{1} << low;
    return off[low] + scale(off[low + 1] - off[low], size - begin, begin);
  }

  std::int64_t corrected(const StepCosts& costs, std::int64_t tokens) const noexcept {
    const std::int64_t ps = costs.at(tokens);
    return ps == StepCosts::kNever ? ps : scale(ps, kOne + at(tokens), kOne);
  }

  /// @param weight_permille  of the new measurement
  void learn(std::int64_t tokens, std::int64_t expected_ps, std::int64_t measured_ps,
             std::int64_t weight_permille) noexcept {
    if (expected_ps <= 0 || measured_ps <= 0) return;
    const std::int64_t size = std::max<std::int64_t>(1, tokens);
    const std::int64_t now = at(size);
    // `expected` holds the correction so far, so the new ratio is on top of it.
    const std::int64_t ratio = scale(measured_ps, kOne + now, expected_ps) - kOne;
    const std::int64_t step = (std::clamp(ratio, -kClamp, kClamp) - now) * weight_permille / 1000;
    const std::size_t low = lower(size);
    for (std::size_t i = low; i <= std::min(low + 1, kSizes - 1); ++i)
      off[i] = std::clamp(off[i] + step, -kClamp, kClamp);
  }

private:
  static std::size_t lower(std::int64_t size) noexcept {
    const auto width = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(size)));
    return std::min(kSizes - 1, width - 1);
  }
};

} // namespace troupe::sched
