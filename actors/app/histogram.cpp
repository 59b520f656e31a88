#include "actors/app/histogram.hpp"

#include "schedulers/core/check.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace troupe::app {

namespace {

std::int64_t saturating_sum(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

} // namespace

// Values below 64 have a bucket each. A value with highest bit b >= 6 falls into group b - 5, whose
// 64 buckets are 2^(b-6) wide.
std::size_t Histogram::bucket_of(std::uint64_t value) noexcept {
  constexpr std::uint64_t kSub = 1U << kSubBits;
  if (value < kSub) {
    return static_cast<std::size_t>(value);
  }
  const int shift = std::bit_width(value) - 1 - kSubBits;
  const std::uint64_t within = (value >> shift) - kSub;
  return (static_cast<std::size_t>(shift + 1) << kSubBits) + static_cast<std::size_t>(within);
}

std::uint64_t Histogram::upper_end(std::size_t bucket) noexcept {
  constexpr std::uint64_t kSub = 1U << kSubBits;
  if (bucket < kSub) {
    return bucket;
  }
  const std::size_t shift = (bucket >> kSubBits) - 1;
  const std::uint64_t within = bucket & (kSub - 1);
  return ((kSub + within + 1) << shift) - 1;
}

void Histogram::record(std::int64_t value_us) noexcept {
  value_us = std::max<std::int64_t>(value_us, 0);
  ++buckets_[bucket_of(static_cast<std::uint64_t>(value_us))];
  ++count_;
  sum_us_ = saturating_sum(sum_us_, value_us);
  max_us_ = std::max(max_us_, value_us);
}

void Histogram::merge(const Histogram& other) noexcept {
  for (std::size_t i = 0; i < kBuckets; ++i) {
    buckets_[i] += other.buckets_[i];
  }
  count_ += other.count_;
  sum_us_ = saturating_sum(sum_us_, other.sum_us_);
  max_us_ = std::max(max_us_, other.max_us_);
}

std::int64_t Histogram::quantile_us(std::int64_t permille) const noexcept {
  TROUPE_CHECK(permille >= 0 && permille <= 1000, "a quantile is a share");
  if (count_ == 0) {
    return 0;
  }
  const std::int64_t wanted = std::max<std::int64_t>((count_ * permille + 999) / 1000, 1);
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= wanted) {
      return std::min(static_cast<std::int64_t>(upper_end(i)), max_us_);
    }
  }
  return max_us_;
}

} // namespace troupe::app
