// As `whole`, but only so many transfers at once: a burst of finished prefills shares the link in
// turn, so that the first ones decode early instead of all of them late.

#pragma once

#include "schedulers/policy/handoff_policy.hpp"

#include <cstdint>

namespace troupe::sched {

struct PacedOptions {
  /// Transfers under way from one rank. Unit: transfers. Default 1. Range 1 to 65536. Hot: yes.
  std::int64_t of_source_max = 1;
  /// Transfers under way in all. Unit: transfers. Default 0 = no limit. Range 0 to 65536. Hot: yes.
  std::int64_t total_max = 0;
};

class PacedHandoff final : public HandoffPolicy {
public:
  explicit PacedHandoff(const PacedOptions& options) : options_(options) {}

  Decision<HandoffPlan> plan(const HandoffQuery& query, const PolicyContext& ctx) noexcept override;

private:
  PacedOptions options_;
};

} // namespace troupe::sched
