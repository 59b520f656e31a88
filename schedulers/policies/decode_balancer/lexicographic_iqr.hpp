// Fewest sequences among the ranks whose context is no outlier.

#pragma once

#include "schedulers/policies/decode_balancer/room.hpp"
#include "schedulers/policy/decode_balancer.hpp"

namespace troupe::sched {

/// Lowest (n, K) after removing ranks with K > Q3 + 1.5·(Q3 - Q1) of all ranks; when none of those
/// that are left has room, the filter is dropped. Quantiles by nearest rank.
///
/// Source: policies.md section 3.2, score 2; decode part of staggered batch scheduling.
class LexicographicIqrBalancer final : public DecodeBalancer {
public:
  explicit LexicographicIqrBalancer(const RoomOptions& options) : options_(options) {}

  Decision<Placement> place(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;

private:
  RoomOptions options_;
};

} // namespace troupe::sched
