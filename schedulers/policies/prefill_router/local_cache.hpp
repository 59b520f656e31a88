// Shortest predicted time to the first token, with the prefix that each rank holds itself.

#pragma once

#include "schedulers/policy/prefill_router.hpp"

#include <cstdint>

namespace troupe::sched {

struct LocalCacheOptions {
  /// A rank whose own prefix is shorter than the longest one by more than this factor is taken to
  /// copy that prefix instead of computing it: a hot prefix spreads. Unit: thousandths (written as
  /// a number). Default 2000 = twice. Range 0.001 to 1000. Hot: yes.
  std::int64_t threshold_permille = 2000;
  /// Time to copy the KV of one token from another rank. Unit: ps. Default 17800 (890 bytes at
  /// 50 GB/s). Range 0 to 10^12. Hot: yes.
  std::int64_t load_token_ps = 17'800;
};

/// Argmin of queue estimate and the steps of what is not cached; a copy overlaps with queueing.
/// Ties by fewer queued requests, then by id. Without any local hit this is least work.
///
/// Source: policies.md sections 2.1 and 2.3; cache-aware scheduling of Mooncake (FAST 2025).
class LocalCacheRouter final : public PrefillRouter {
public:
  explicit LocalCacheRouter(const LocalCacheOptions& options) : options_(options) {}

  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;

private:
  LocalCacheOptions options_;
};

} // namespace troupe::sched
