// Fewest sequences, then least context: right where requests cost much more than context.

#pragma once

#include "schedulers/policies/decode_balancer/room.hpp"
#include "schedulers/policy/decode_balancer.hpp"

namespace troupe::sched {

/// Lowest (n, K); ties by id. Source: policies.md section 3.2, score 6.
class LeastCountBalancer final : public DecodeBalancer {
public:
  explicit LeastCountBalancer(const RoomOptions& options) : options_(options) {}

  Decision<Placement> place(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;

private:
  RoomOptions options_;
};

} // namespace troupe::sched
