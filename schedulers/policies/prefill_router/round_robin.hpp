// Ranks in turn, skipping those without room.

#pragma once

#include "schedulers/policies/turn.hpp"
#include "schedulers/policy/prefill_router.hpp"

#include <string>

namespace troupe::sched {

/// State: the last rank chosen. Takes no options.
class RoundRobinRouter final : public PrefillRouter {
public:
  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;
  std::string export_state() const override { return turn_.export_state(); }
  void import_state(const std::string& state) override { turn_.import_state(state); }

private:
  Turn turn_;
};

} // namespace troupe::sched
