// A weighted sum of count and context, each against its mean.

#pragma once

#include "schedulers/policies/decode_balancer/room.hpp"
#include "schedulers/policy/decode_balancer.hpp"

#include <cstdint>

namespace troupe::sched {

struct WeightedSumOptions {
  RoomOptions room;
  /// Weight of n / mean n. Unit: thousandths (written as a number). Default 500. Range 0 to 1000.
  /// Hot: yes.
  std::int64_t count_permille = 500;
  /// Weight of K / mean K, as above.
  std::int64_t context_permille = 500;
};

/// Lowest weight·n / mean n + weight·K / mean K; means over all ranks; ties by id.
///
/// Source: policies.md section 3.2, score 4.
class WeightedSumBalancer final : public DecodeBalancer {
public:
  explicit WeightedSumBalancer(const WeightedSumOptions& options) : options_(options) {}

  Decision<Placement> place(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;

private:
  WeightedSumOptions options_;
};

} // namespace troupe::sched
