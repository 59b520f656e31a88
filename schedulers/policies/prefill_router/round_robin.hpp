// Ranks in turn, skipping those without room.

#pragma once

#include "schedulers/policy/prefill_router.hpp"

#include <cstdint>

namespace troupe::sched {

/// State: the last rank chosen. Takes no options.
class RoundRobinRouter final : public PrefillRouter {
public:
  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;
  std::string export_state() const override;
  void import_state(const std::string& state) override;

private:
  std::int64_t last_ = -1; ///< Number of the rank chosen last; -1 = none yet.
};

} // namespace troupe::sched
