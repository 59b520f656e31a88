// Physical sum: the time a rank's step takes from its sequences and their context.

#pragma once

#include "schedulers/policies/decode_balancer/room.hpp"
#include "schedulers/policy/decode_balancer.hpp"

namespace troupe::sched {

/// Lowest c_q·n + kappa·K in picoseconds, of the state before placement; ties by id.
///
/// K is the context held now: how long answers get is not known, and what they may reach at most
/// says little where the limit is generous. Capacity uses the limit (room.hpp).
/// Source: policies.md section 3.2, score 1.
class CountAndKvBalancer final : public DecodeBalancer {
public:
  explicit CountAndKvBalancer(const RoomOptions& options) : options_(options) {}

  Decision<Placement> place(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;

private:
  RoomOptions options_;
};

} // namespace troupe::sched
