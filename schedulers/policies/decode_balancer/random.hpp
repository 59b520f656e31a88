// A rank with room, drawn from the seeded generator.

#pragma once

#include "schedulers/policies/decode_balancer/room.hpp"
#include "schedulers/policy/decode_balancer.hpp"

namespace troupe::sched {

/// All ranks with room are equally likely. Source: policies.md section 3.2, score 6.
class RandomBalancer final : public DecodeBalancer {
public:
  explicit RandomBalancer(const RoomOptions& options) : options_(options) {}

  Decision<Placement> place(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;

private:
  RoomOptions options_;
};

} // namespace troupe::sched
