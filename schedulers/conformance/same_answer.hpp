// Whether two answers to one question are the same in everything that a host or a ledger sees.

#pragma once

#include "schedulers/policy/questions.hpp"

#include <algorithm>
#include <vector>

namespace troupe::sched::conformance {

inline bool same(const std::vector<Share>& a, const std::vector<Share>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Share& x, const Share& y) {
    return x.candidate == y.candidate && x.tokens == y.tokens;
  });
}

inline bool same(Admission a, Admission b) { return a == b; }
inline bool same(const Order& a, const Order& b) { return a.positions == b.positions; }
inline bool same(const Placement& a, const Placement& b) {
  return a.rank == b.rank && a.scores == b.scores;
}
inline bool same(const Slices& a, const Slices& b) { return same(a.shares, b.shares); }
inline bool same(const HandoffPlan& a, const HandoffPlan& b) { return a.mode == b.mode; }
inline bool same(const StepDecision& a, const StepDecision& b) {
  return a.decodes == b.decodes && same(a.slices, b.slices);
}

inline bool same(const OverlapPlan& a, const OverlapPlan& b) { return a == b; }
inline bool same(const ExpertLayout& a, const ExpertLayout& b) { return a == b; }

/// Value, reason and retry time; pure.
template <class T>
bool same_answer(const Decision<T>& a, const Decision<T>& b) {
  return a.reason == b.reason && a.retry_at_us == b.retry_at_us &&
         a.value.has_value() == b.value.has_value() && (!a.value || same(*a.value, *b.value));
}

} // namespace troupe::sched::conformance
