// Blocks to compute, less what is cached, plus blocks in use: a sum without a cost model.

#pragma once

#include "schedulers/policy/prefill_router.hpp"

#include <cstdint>

namespace troupe::sched {

struct OverlapCreditOptions {
  /// Weight of blocks that are to be computed against blocks in use. Unit: thousandths (written as
  /// a number). Default 1000. Range 0 to 1000. Hot: yes.
  std::int64_t overlap_credit_permille = 1000;
  /// 0 takes the lowest cost; above that ranks are drawn with weights exp(-cost / temperature), the
  /// costs spread over 0 to 1. Unit: thousandths (written as a number). Default 0. Range 0 to 100.
  /// Hot: yes.
  std::int64_t temperature_permille = 0;
};

/// Lowest overlap_credit·prefill blocks + blocks in use after placement; ties by id.
///
/// Prefill blocks are those of the queue and of what this request has not cached there.
/// Source: policies.md section 2.3; KV-aware router of NVIDIA Dynamo.
class OverlapCreditRouter final : public PrefillRouter {
public:
  explicit OverlapCreditRouter(const OverlapCreditOptions& options) : options_(options) {}

  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;

private:
  OverlapCreditOptions options_;
};

} // namespace troupe::sched
