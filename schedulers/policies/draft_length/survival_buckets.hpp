// Survivals of many drafts, the likeliest first, without a comparison of each with each: their
// leading digits say nearly where they go.

#pragma once

#include "schedulers/policy/draft_length_policy.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace troupe::sched {

/// What a row is asked with: what was known two steps ago, where there is any.
inline std::span<const std::int64_t> survivals_of(const DraftRow& row, bool old) noexcept {
  const auto survivals = old && !row.old_survivals.empty() ? row.old_survivals : row.survivals;
  return survivals.first(std::min(survivals.size(), row.survivals.size()));
}

/// Survivals by their leading digits. Bucket 0 holds the likeliest; one out of 0 .. 2^30 lies in
/// the nearest bucket.
struct SurvivalBucket {
  static constexpr std::size_t kBuckets = 128;
  static constexpr int kShift = 23; ///< kCertain >> kShift is kBuckets.

  static std::size_t of(std::int64_t survival) noexcept {
    const std::int64_t from_top = (kCertain - survival) >> kShift;
    return static_cast<std::size_t>(
        std::clamp<std::int64_t>(from_top, 0, static_cast<std::int64_t>(kBuckets) - 1));
  }
  /// The highest survival of a bucket.
  static std::int64_t highest(std::size_t bucket) noexcept {
    if (bucket == 0) return std::numeric_limits<std::int64_t>::max();
    return kCertain - (static_cast<std::int64_t>(bucket) << kShift);
  }
  /// The lowest survival of a bucket.
  static std::int64_t lowest(std::size_t bucket) noexcept {
    if (bucket + 1 == kBuckets) return std::numeric_limits<std::int64_t>::min();
    return highest(bucket + 1) + 1;
  }
};

/// All survivals, with how many lie in each bucket and their sum.
class SurvivalBuckets {
public:
  static constexpr std::size_t kBuckets = SurvivalBucket::kBuckets;
  struct Bucket {
    std::size_t count = 0;
    std::int64_t sum = 0;
  };

  SurvivalBuckets(std::span<const DraftRow> rows, bool old) {
    std::size_t count = 0;
    for (const DraftRow& row : rows)
      count += survivals_of(row, old).size();
    values_.resize(count);
    std::int64_t* next = values_.data();
    for (const DraftRow& row : rows) {
      for (const std::int64_t survival : survivals_of(row, old)) {
        Bucket& bucket = buckets_[SurvivalBucket::of(survival)];
        ++bucket.count;
        bucket.sum += survival;
        *next++ = survival;
      }
    }
  }

  std::size_t size() const noexcept { return values_.size(); }
  std::span<const Bucket> buckets() const noexcept { return buckets_; }

  std::vector<std::int64_t> falling() const { return falling(0, kBuckets - 1); }
  /// The survivals of the buckets from `first` to `last`, falling.
  std::vector<std::int64_t> falling(std::size_t first, std::size_t last) const {
    const std::int64_t highest = SurvivalBucket::highest(first);
    const std::int64_t lowest = SurvivalBucket::lowest(last);
    std::vector<std::int64_t> found;
    for (const std::int64_t value : values_) {
      if (value >= lowest && value <= highest) found.push_back(value);
    }
    std::sort(found.begin(), found.end(), std::greater<>{});
    return found;
  }

private:
  std::vector<std::int64_t> values_;
  std::array<Bucket, kBuckets> buckets_{};
};

} // namespace troupe::sched
