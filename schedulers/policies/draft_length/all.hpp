// Verifies every draft, whatever it costs.

#pragma once

#include "schedulers/policy/draft_length_policy.hpp"

namespace troupe::sched {

/// Takes no options. Source: policies.md section 5.4, the fixed length.
class AllDrafts final : public DraftLengthPolicy {
public:
  Decision<DraftLengths> choose(const DraftQuery& query,
                                const PolicyContext& ctx) noexcept override;
};

} // namespace troupe::sched
