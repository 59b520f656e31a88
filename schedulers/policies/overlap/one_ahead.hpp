// Plans step n + 1 while step n runs, on the most that step n can use.

#pragma once

#include "schedulers/policy/overlap_policy.hpp"

#include <cstdint>

namespace troupe::sched {

struct OneAheadOptions {
  /// Steps shorter than this share of the host's time are planned one after the other: there is
  /// nothing to hide behind. Unit: thousandths (written as a number). Default 0 = always ahead.
  /// Range 0 to 1. Hot: yes.
  std::int64_t device_share_min_permille = 0;
};

/// One plan is held besides the running one. It waits when the optimistic step would need blocks
/// that only the running step's end gives back; those count as on their way, so nobody needs to be
/// preempted for them.
///
/// Source: policies.md sections 6.1 and 6.2.
class OneAheadOverlap final : public OverlapPolicy {
public:
  explicit OneAheadOverlap(const OneAheadOptions& options) : options_(options) {}

  Decision<OverlapPlan> plan(const OverlapView& view, const PolicyContext& ctx) noexcept override;

private:
  OneAheadOptions options_;
};

} // namespace troupe::sched
