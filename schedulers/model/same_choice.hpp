// Whether two answers to one question choose the same. Scores and reasons do not count: two
// policies may agree for different reasons.

#pragma once

#include "schedulers/model/decisions.hpp"
#include "schedulers/policy/expert_placement.hpp"
#include "schedulers/policy/overlap_policy.hpp"
#include "schedulers/policy/policy.hpp"

#include <algorithm>
#include <vector>

namespace troupe::sched {

inline bool same_choice(Admission a, Admission b) noexcept { return a == b; }
inline bool same_choice(const Order& a, const Order& b) { return a.positions == b.positions; }
inline bool same_choice(const Placement& a, const Placement& b) noexcept {
  return a.rank == b.rank;
}
inline bool same_choice(const HandoffPlan& a, const HandoffPlan& b) noexcept {
  return a.mode == b.mode;
}
inline bool same_choice(const std::vector<Share>& a, const std::vector<Share>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Share& x, const Share& y) {
    return x.candidate == y.candidate && x.tokens == y.tokens;
  });
}
inline bool same_choice(const Slices& a, const Slices& b) {
  return same_choice(a.shares, b.shares);
}
inline bool same_choice(const StepDecision& a, const StepDecision& b) {
  return a.decodes == b.decodes && same_choice(a.slices, b.slices);
}

inline bool same_choice(const OverlapPlan& a, const OverlapPlan& b) noexcept { return a == b; }
/// The same maps, whatever was predicted of them.
inline bool same_choice(const ExpertLayout& a, const ExpertLayout& b) {
  return std::equal(
      a.layers.begin(), a.layers.end(), b.layers.begin(), b.layers.end(),
      [](const ExpertLayerPlan& x, const ExpertLayerPlan& y) { return x.slots == y.slots; });
}

/// Two decisions without a value are equal.
template <class T>
bool same_choice(const Decision<T>& a, const Decision<T>& b) {
  return a.value && b.value ? same_choice(*a.value, *b.value) : !a.value && !b.value;
}

} // namespace troupe::sched
