// Statistics of expert loads over all ranks: sums of an interval, and their moving mean.

#pragma once

#include "schedulers/model/integer_math.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::sched {

/// One interval's counts of every rank add up; closing it moves the mean.
class ExpertStatistics {
public:
  /// @param weight_permille  of the newest interval in the mean, in thousandths
  ExpertStatistics(std::int64_t layers, std::int64_t experts, std::int64_t weight_permille)
      : weight_permille_(weight_permille),
        sum_(static_cast<std::size_t>(layers),
             std::vector<std::int64_t>(static_cast<std::size_t>(experts), 0)),
        mean_(sum_) {}

  /// Adds the counts of one rank; false, and nothing added, when their number is wrong or one is
  /// negative.
  bool add(std::int64_t layer, std::span<const std::int64_t> counts) {
    if (layer < 0 || layer >= static_cast<std::int64_t>(sum_.size())) return false;
    std::vector<std::int64_t>& sums = sum_[static_cast<std::size_t>(layer)];
    if (counts.size() != sums.size()) return false;
    for (const std::int64_t count : counts) {
      if (count < 0) return false;
    }
    for (std::size_t e = 0; e < sums.size(); ++e)
      sums[e] += counts[e];
    return true;
  }

  /// Forgets what came in since the last close(), for a layer of which some counts are missing.
  void discard(std::int64_t layer) {
    std::vector<std::int64_t>& sums = sum_[static_cast<std::size_t>(layer)];
    std::fill(sums.begin(), sums.end(), 0);
  }

  /// mean = weight·sum + (1 - weight)·mean, the first time the sum itself. A layer that got nothing
  /// keeps its mean.
  void close() {
    for (std::size_t layer = 0; layer < sum_.size(); ++layer) {
      std::int64_t total = 0;
      std::int64_t known = 0;
      for (std::size_t e = 0; e < sum_[layer].size(); ++e) {
        total += sum_[layer][e];
        known += mean_[layer][e];
      }
      if (total == 0) continue;
      const std::int64_t weight = known == 0 ? 1000 : weight_permille_;
      for (std::size_t e = 0; e < sum_[layer].size(); ++e) {
        std::int64_t& mean = mean_[layer][e];
        mean += scale(sum_[layer][e] - mean, weight, 1000);
        sum_[layer][e] = 0;
      }
    }
  }

  /// [experts] all zero before the first interval with counts.
  const std::vector<std::int64_t>& mean(std::int64_t layer) const {
    return mean_[static_cast<std::size_t>(layer)];
  }

private:
  std::int64_t weight_permille_;
  std::vector<std::vector<std::int64_t>> sum_;  ///< [layers][experts]
  std::vector<std::vector<std::int64_t>> mean_; ///< [layers][experts]
};

} // namespace troupe::sched
