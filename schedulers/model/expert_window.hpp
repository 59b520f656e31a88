// The newest rounds of expert loads: a round holds at most one report of each rank.
//
// Sums over time hide bursts, and experts that are busy together; rounds show them.

#pragma once

#include "schedulers/core/ids.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace troupe::sched {

class ExpertWindow {
public:
  /// @pre rounds_max >= 1
  ExpertWindow(std::int64_t layers, std::int64_t experts, std::int64_t rounds_max)
      : experts_(static_cast<std::size_t>(experts)),
        rounds_max_(static_cast<std::size_t>(rounds_max)),
        layers_(static_cast<std::size_t>(layers)) {}

  /// Begins a report; a rank that is in the newest round already begins the next one.
  void report(RankId rank) {
    if (rounds_ == 0 || !reported_.insert(rank).second) {
      reported_ = {rank};
      if (rounds_ == rounds_max_) drop_oldest();
      ++rounds_;
      for (auto& layer : layers_)
        layer.resize(rounds_ * experts_, 0);
    }
  }

  /// Counts of the report. @pre report() came before; counts are those of all experts, >= 0
  void add(std::int64_t layer, std::span<const std::int64_t> counts) {
    auto& rows = layers_[static_cast<std::size_t>(layer)];
    std::int64_t* row = rows.data() + (rounds_ - 1) * experts_;
    for (std::size_t e = 0; e < experts_; ++e)
      row[e] += counts[e];
  }

  /// A layer whose rounds lack reports counts as quiet.
  void forget(std::int64_t layer) {
    auto& rows = layers_[static_cast<std::size_t>(layer)];
    std::fill(rows.begin(), rows.end(), 0);
  }

  /// [rounds, experts] oldest first.
  const std::vector<std::int64_t>& of(std::int64_t layer) const {
    return layers_[static_cast<std::size_t>(layer)];
  }
  std::int64_t rounds() const noexcept { return static_cast<std::int64_t>(rounds_); }

private:
  void drop_oldest() {
    --rounds_;
    for (auto& layer : layers_)
      layer.erase(layer.begin(), layer.begin() + static_cast<std::ptrdiff_t>(experts_));
  }

  std::size_t experts_;
  std::size_t rounds_max_;
  std::size_t rounds_ = 0;
  std::set<RankId> reported_;                     ///< In the newest round.
  std::vector<std::vector<std::int64_t>> layers_; ///< [layers][rounds, experts]
};

} // namespace troupe::sched
