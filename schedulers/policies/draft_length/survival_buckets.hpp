// Survivals of many drafts, the likeliest first, without a comparison of each with each: their
// leading digits say nearly where they go.

#pragma once

#include "schedulers/policy/draft_length_policy.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace troupe::sched {

/// What a row is asked with: what was known two steps ago, where there is any.
inline std::span<const std::int64_t> survivals_of(const DraftRow& row, bool old) noexcept {
  const auto survivals = old && !row.old_survivals.empty() ? row.old_survivals : row.survivals;
  return survivals.first(std::min(survivals.size(), row.survivals.size()));
}

/// All survivals, with how many lie in each bucket and their sum. Bucket 0 holds the likeliest; one
/// out of 0 .. 2^30 lies in the nearest bucket.
class SurvivalBuckets {
public:
  static constexpr std::size_t kBuckets = 128;
  struct Bucket {
    std::size_t count = 0;
    std::int64_t sum = 0;
  };

  struct Cut {
    std::int64_t least = 0; ///< Survival of the last one.
    std::size_t equal = 0;  ///< Drafts among them with just that survival.
  };

  SurvivalBuckets(std::span<const DraftRow> rows, bool old) {
    std::size_t count = 0;
    for (const DraftRow& row : rows)
      count += survivals_of(row, old).size();
    values_.resize(count);
    std::int64_t* next = values_.data();
    for (const DraftRow& row : rows) {
      for (const std::int64_t survival : survivals_of(row, old)) {
        Bucket& bucket = buckets_[bucket_of(survival)];
        ++bucket.count;
        bucket.sum += survival;
        *next++ = survival;
      }
    }
  }

  std::size_t size() const noexcept { return values_.size(); }
  std::span<const Bucket> buckets() const noexcept { return buckets_; }

  std::vector<std::int64_t> falling() const {
    std::vector<std::int64_t> all = values_;
    std::sort(all.begin(), all.end(), std::greater<>{});
    return all;
  }
  /// The survivals of the buckets in `wanted`, falling.
  std::vector<std::int64_t> falling(const std::array<bool, kBuckets>& wanted) const {
    std::vector<std::int64_t> found;
    for (const std::int64_t value : values_) {
      if (wanted[bucket_of(value)]) found.push_back(value);
    }
    std::sort(found.begin(), found.end(), std::greater<>{});
    return found;
  }

  /// Where the likeliest `count` end. @pre 1 <= count <= size()
  Cut cut(std::size_t count) const {
    std::array<bool, kBuckets> wanted{};
    std::size_t before = 0;
    std::size_t bucket = 0;
    while (before + buckets_[bucket].count < count)
      before += buckets_[bucket++].count;
    wanted[bucket] = true;
    const std::vector<std::int64_t> values = falling(wanted);
    const std::int64_t least = values[count - before - 1];
    const auto first = std::lower_bound(values.begin(), values.end(), least, std::greater<>{});
    return {least, count - before - static_cast<std::size_t>(first - values.begin())};
  }

private:
  static constexpr int kShift = 23; ///< kCertain >> kShift is kBuckets.

  static std::size_t bucket_of(std::int64_t survival) noexcept {
    const std::int64_t from_top = (kCertain - survival) >> kShift;
    return static_cast<std::size_t>(
        std::clamp<std::int64_t>(from_top, 0, static_cast<std::int64_t>(kBuckets) - 1));
  }

  std::vector<std::int64_t> values_;
  std::array<Bucket, kBuckets> buckets_{};
};

} // namespace troupe::sched
