#include "schedulers/sim/outcomes.hpp"

#include "schedulers/core/check.hpp"

#include <algorithm>

namespace troupe::sim {

Outcomes::Outcomes(const std::vector<RequestPlan>& plans) {
  outcomes_.reserve(plans.size());
  for (const RequestPlan& plan : plans) {
    TROUPE_CHECK(outcomes_.empty() || outcomes_.back().plan.request < plan.request,
                 "requests of a run ascend");
    outcomes_.emplace_back().plan = plan;
  }
}

Outcome* Outcomes::find(RequestId request) {
  // Ids that count from 1 are found at once.
  const std::uint64_t guess = raw(request) - 1;
  if (guess < outcomes_.size() && outcomes_[guess].plan.request == request) {
    return &outcomes_[guess];
  }
  const auto found = std::lower_bound(
      outcomes_.begin(), outcomes_.end(), request,
      [](const Outcome& outcome, RequestId key) { return outcome.plan.request < key; });
  return found != outcomes_.end() && found->plan.request == request ? &*found : nullptr;
}

const Outcome& Outcomes::at(RequestId request) const {
  const Outcome* found = const_cast<Outcomes*>(this)->find(request);
  TROUPE_CHECK(found != nullptr, "a request of this run");
  return *found;
}

} // namespace troupe::sim
