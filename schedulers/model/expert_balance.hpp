// How evenly the experts of a model load their GPUs: one figure for all layers.

#pragma once

#include "schedulers/model/expert_map.hpp"
#include "schedulers/model/integer_math.hpp"

#include <cstdint>
#include <span>

namespace troupe::sched {

/// Mean over layers, each with the weight of its tokens. Source: policies.md section 4.2.
class ExpertBalance {
public:
  /// A layer with `tokens` > 0, whose hottest GPU has so much of the mean load, in millionths.
  void add(std::int64_t tokens, std::int64_t imbalance_millionths) {
    tokens_ += tokens;
    imbalance_ += static_cast<Int128>(tokens) * imbalance_millionths;
    balancedness_ += static_cast<Int128>(tokens) * (kOne * kOne / imbalance_millionths);
  }
  /// The same from loads under a map; nothing for loads that say nothing.
  void add(const ExpertTopology& topology, std::span<const std::int32_t> slots,
           std::span<const std::int64_t> loads) {
    if (!usable_loads(loads, topology.experts)) return;
    std::int64_t tokens = 0;
    for (const std::int64_t load : loads)
      tokens += load;
    add(tokens, imbalance_of(topology, slots, loads));
  }

  bool known() const noexcept { return tokens_ > 0; }
  /// Highest over mean GPU load in millionths, >= 1'000'000. @pre known()
  std::int64_t imbalance() const noexcept { return saturate(imbalance_ / tokens_); }
  /// Mean over highest GPU load in thousandths, up to 1000; -1 when nothing is known.
  std::int64_t permille() const noexcept {
    return known() ? saturate(balancedness_ / tokens_ / 1000) : -1;
  }

private:
  static constexpr std::int64_t kOne = 1'000'000;

  static std::int64_t imbalance_of(const ExpertTopology& topology,
                                   std::span<const std::int32_t> slots,
                                   std::span<const std::int64_t> loads) {
    return imbalance_millionths(gpu_loads(topology, slots, FineLoads(loads)));
  }

  Int128 tokens_ = 0;
  Int128 imbalance_ = 0;
  Int128 balancedness_ = 0;
};

} // namespace troupe::sched
