// A prefill router composed in the policy file.

#pragma once

#include "schedulers/policies/scored/scored.hpp"
#include "schedulers/policy/prefill_router.hpp"

#include <utility>

namespace troupe::sched {

/// Source: style.md (e), filter, score and pick.
class ScoredRouter final : public PrefillRouter {
public:
  explicit ScoredRouter(ScoredOptions options) : options_(std::move(options)) {}

  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override {
    return place_scored(query, ranks, ctx, options_);
  }

private:
  ScoredOptions options_;
};

/// Terms: least_work, least_requests, least_tokens, least_uncached, local_hit, session.
ScoredOptions scored_router_options(OptionTable& table);

} // namespace troupe::sched
