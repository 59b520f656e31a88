// Ranks in turn, skipping those without room.

#pragma once

#include "schedulers/policies/decode_balancer/room.hpp"
#include "schedulers/policies/turn.hpp"
#include "schedulers/policy/decode_balancer.hpp"

#include <string>

namespace troupe::sched {

/// State: the last rank chosen. Source: policies.md section 3.2, score 6.
class RoundRobinBalancer final : public DecodeBalancer {
public:
  explicit RoundRobinBalancer(const RoomOptions& options) : options_(options) {}

  Decision<Placement> place(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;
  std::string export_state() const override { return turn_.export_state(); }
  void import_state(const std::string& state) override { turn_.import_state(state); }

private:
  RoomOptions options_;
  Turn turn_;
};

} // namespace troupe::sched
