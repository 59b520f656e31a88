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
    // A step of 2^low tokens and more: the division by 2^low is a shift, rounded towards zero.
    const std::int64_t part = (off[low + 1] - off[low]) * (size - (std::int64_t{1} << low));
    return off[low] + (part >= 0 ? part >> low : -(-part >> low));
  }

  /// The lowest of at() from `from` to `to`: between two of the sizes above it only rises or falls.
  std::int64_t lowest(std::int64_t from, std::int64_t to) const noexcept {
    std::int64_t least = std::min(at(from), at(to));
    const std::size_t last = lower(std::max<std::int64_t>(1, to));
    for (std::size_t i = lower(std::max<std::int64_t>(1, from)) + 1; i <= last; ++i)
      least = std::min(least, off[i]);
    return least;
  }

  /// What a step is expected to take that the table says takes `ps`.
  std::int64_t correct(std::int64_t ps, std::int64_t tokens) const noexcept {
    return ps == StepCosts::kNever ? ps : scale(ps, kOne + at(tokens), kOne);
  }

  std::int64_t corrected(const StepCosts& costs, std::int64_t tokens) const noexcept {
    return correct(costs.at(tokens), tokens);
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
  friend class CorrectedWalk;

  static std::size_t lower(std::int64_t size) noexcept {
    const auto width = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(size)));
    return std::min(kSizes - 1, width - 1);
  }
};

/// Residuals::corrected() at sizes that never fall, each in a few operations.
class CorrectedWalk {
public:
  /// @pre `costs` has points; both outlive this
  CorrectedWalk(const StepCosts& costs, const Residuals& residuals)
      : costs_(costs), residuals_(residuals) {}

  /// @pre `tokens` is not below the one before
  std::int64_t at(std::int64_t tokens) {
    read(tokens);
    if (ps_ == StepCosts::kNever) return ps_;
    if (tokens >= octave_end_) begin_octave(tokens);
    return scale(ps_, Residuals::kOne + off_at(tokens), Residuals::kOne);
  }

  /// A time that at() is not below from `from` to `to`, where the table never falls.
  /// @pre `from` is not below the size before; counts as the size before what is asked next
  std::int64_t lowest(std::int64_t from, std::int64_t to) {
    read(from);
    if (from >= octave_end_) begin_octave(from);
    const bool is_straight = to < octave_end_;
    const std::int64_t off =
        is_straight ? std::min(off_at(from), off_at(to)) : residuals_.lowest(from, to);
    return scale(ps_, Residuals::kOne + off, Residuals::kOne);
  }

private:
  void read(std::int64_t tokens) {
    if (tokens <= same_until_) return;
    ps_ = costs_.at(tokens);
    same_until_ = costs_.same_until(tokens);
  }

  /// @pre `tokens` is in the octave
  std::int64_t off_at(std::int64_t tokens) const noexcept {
    const std::int64_t part = slope_ * (std::max<std::int64_t>(1, tokens) - octave_begin_);
    return off_ + (part >= 0 ? part >> shift_ : -(-part >> shift_));
  }

  void begin_octave(std::int64_t tokens) {
    const std::size_t low = Residuals::lower(std::max<std::int64_t>(1, tokens));
    const bool is_last = low + 1 == Residuals::kSizes;
    off_ = residuals_.off[low];
    slope_ = is_last ? 0 : residuals_.off[low + 1] - off_;
    shift_ = low;
    octave_begin_ = std::int64_t{1} << low;
    octave_end_ = is_last ? StepCosts::kNever : 2 * octave_begin_;
  }

  StepCostWalk costs_;
  const Residuals& residuals_;
  std::int64_t ps_ = 0; ///< By the table, up to same_until_.
  std::int64_t same_until_ = -1;
  std::int64_t off_ = 0, slope_ = 0; ///< Of the sizes from octave_begin_ to octave_end_.
  std::size_t shift_ = 0;
  std::int64_t octave_begin_ = 0, octave_end_ = 0;
};

} // namespace troupe::sched
