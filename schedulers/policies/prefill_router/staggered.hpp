// Holds arrivals until a rank is about to become free, then assigns them to the least work.

#pragma once

#include "schedulers/policy/prefill_router.hpp"

#include <cstdint>

namespace troupe::sched {

struct StaggeredOptions {
  /// A rank takes new requests when its queue estimate is at most this. Unit: us. Default 5000.
  /// Range 0 to 10^9. Hot: yes.
  std::int64_t ahead_us = 5000;
  /// From arrival; after that a request is routed to the least work wherever that is. Unit: us.
  /// Default 200000. Range 0 to 10^9. Hot: yes.
  std::int64_t hold_us_max = 200'000;
};

/// What was held is assigned in queue order, each to the rank with the least work so far: the
/// window fills the ranks like water. Late choices know which rank is really free next.
///
/// Source: policies.md section 2.3; staggered batch scheduling (arXiv 2512.16134).
class StaggeredRouter final : public PrefillRouter {
public:
  explicit StaggeredRouter(const StaggeredOptions& options) : options_(options) {}

  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;

private:
  StaggeredOptions options_;
};

} // namespace troupe::sched
