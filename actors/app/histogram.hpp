// A log-linear histogram of durations: constant memory, quantiles within 1/64.

#pragma once

#include <array>
#include <cstdint>

namespace troupe::app {

/// Counts of non-negative values in buckets whose width is 1/64 of their power of two.
class Histogram {
public:
  /// Negative values count as 0.
  void record(std::int64_t value_us) noexcept;

  void merge(const Histogram& other) noexcept;

  std::int64_t count() const noexcept { return count_; }
  /// Mean, 0 without values.
  std::int64_t mean_us() const noexcept { return count_ == 0 ? 0 : sum_us_ / count_; }
  std::int64_t max_us() const noexcept { return max_us_; }

  /// Smallest recorded bucket's upper end such that at least `permille` of the values are not
  /// above it, never above the largest value; 0 without values. @pre 0 <= permille <= 1000
  std::int64_t quantile_us(std::int64_t permille) const noexcept;

private:
  static constexpr int kSubBits = 6; ///< 64 buckets a power of two.
  static constexpr std::size_t kBuckets = (64 - kSubBits) << kSubBits;
  static std::size_t bucket_of(std::uint64_t value) noexcept;
  static std::uint64_t upper_end(std::size_t bucket) noexcept;

  std::array<std::int64_t, kBuckets> buckets_{};
  std::int64_t count_ = 0;
  std::int64_t sum_us_ = 0;
  std::int64_t max_us_ = 0;
};

} // namespace troupe::app
