// A rank with room, drawn from the seeded generator.

#pragma once

#include "schedulers/policy/prefill_router.hpp"

namespace troupe::sched {

/// All ranks with room are equally likely. Takes no options. Source: policies.md section 2.3.
class RandomRouter final : public PrefillRouter {
public:
  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;
};

} // namespace troupe::sched
