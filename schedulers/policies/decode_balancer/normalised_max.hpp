// The larger of count and context, each against its mean: neither may run ahead.

#pragma once

#include "schedulers/policies/decode_balancer/room.hpp"
#include "schedulers/policy/decode_balancer.hpp"

namespace troupe::sched {

/// Lowest max(n / mean n, K / mean K), then the lowest sum of the two; means over all ranks; ties
/// by id.
///
/// Source: policies.md section 3.2, score 3.
class NormalisedMaxBalancer final : public DecodeBalancer {
public:
  explicit NormalisedMaxBalancer(const RoomOptions& options) : options_(options) {}

  Decision<Placement> place(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;

private:
  RoomOptions options_;
};

} // namespace troupe::sched
