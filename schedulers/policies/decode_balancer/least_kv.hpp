// Least context, then fewest sequences: right where context costs most, as with MLA caches.

#pragma once

#include "schedulers/policies/decode_balancer/room.hpp"
#include "schedulers/policy/decode_balancer.hpp"

namespace troupe::sched {

/// Lowest (K, n); ties by id. Source: policies.md section 3.2, score 6.
class LeastKvBalancer final : public DecodeBalancer {
public:
  explicit LeastKvBalancer(const RoomOptions& options) : options_(options) {}

  Decision<Placement> place(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;

private:
  RoomOptions options_;
};

} // namespace troupe::sched
