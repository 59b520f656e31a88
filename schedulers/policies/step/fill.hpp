// The two halves of composing a step, shared by the policies that differ in their order.

#pragma once

#include "schedulers/policy/step_policy.hpp"

#include <algorithm>
#include <cstdint>

namespace troupe::sched {

/// Adds decodes while tokens are left; returns whether all found room.
inline bool fill_decodes(const StepQuery& query, std::int64_t& left, StepDecision& decision) {
  for (std::uint32_t i = 0; i < query.decodes.size(); ++i) {
    if (left == 0) return false;
    decision.decodes.push_back(i);
    --left;
  }
  return true;
}

/// Adds slices while tokens are left, cutting the last; returns whether all found room whole.
inline bool fill_slices(const StepQuery& query, std::int64_t& left, StepDecision& decision) {
  for (std::uint32_t i = 0; i < query.slices.size(); ++i) {
    const std::int64_t tokens = std::min(left, query.slices[i].count);
    if (tokens > 0) decision.slices.push_back({i, tokens});
    left -= tokens;
    if (tokens < query.slices[i].count) return false;
  }
  return true;
}

} // namespace troupe::sched
