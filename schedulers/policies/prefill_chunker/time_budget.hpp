// The largest slices that fit a time by the cost model: steps of equal length at any context.

#pragma once

#include "schedulers/policy/prefill_chunker.hpp"

#include <cstdint>

namespace troupe::sched {

struct TimeBudgetOptions {
  /// What one step may take, its fixed part included. Unit: us. Default 100000.
  /// Range 1 to 10^9. Hot: yes.
  std::int64_t budget_us = 100'000;
  /// Chunks that do not end a prompt are multiples of this. Unit: tokens. Default 1.
  /// Range 1 to 65536. Hot: yes.
  std::int64_t align_tokens = 1;
  /// Share of each step that is kept for the oldest request where the queue order puts others
  /// before it: with 100 it goes on even under a steady stream of short ones. Unit: thousandths.
  /// Default 0 = none. Range 0 to 1000. Hot: yes.
  std::int64_t oldest_permille = 0;
};

/// Takes requests in order while time is left; only the last one taken is cut, and beside it the
/// oldest one where a share is kept for it.
///
/// The first request always gets at least one aligned chunk, also when the budget is below that:
/// a budget that is too small makes short steps, not a standstill (reason `budget_too_small`).
/// Source: policies.md sections 1.3, 1.4 and 1.6.
class TimeBudgetChunker final : public PrefillChunker {
public:
  explicit TimeBudgetChunker(const TimeBudgetOptions& options) : options_(options) {}

  Decision<Slices> pack(const PackQuery& query, std::span<const RequestView> requests,
                        const PolicyContext& ctx) noexcept override;
  std::int64_t step_budget_ps(const CostModel& model,
                              std::int64_t step_tokens_max) const noexcept override;

private:
  TimeBudgetOptions options_;
};

} // namespace troupe::sched
