// A decode balancer composed in the policy file.

#pragma once

#include "schedulers/policies/scored/scored.hpp"
#include "schedulers/policy/decode_balancer.hpp"

#include <utility>

namespace troupe::sched {

/// Source: style.md (e), filter, score and pick.
class ScoredBalancer final : public DecodeBalancer {
public:
  explicit ScoredBalancer(ScoredOptions options) : options_(std::move(options)) {}

  Decision<Placement> place(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override {
    return place_scored(query, ranks, ctx, options_);
  }

private:
  ScoredOptions options_;
};

/// Terms: count_and_kv, least_count, least_kv, most_blocks.
ScoredOptions scored_balancer_options(OptionTable& table);

} // namespace troupe::sched
