// Decides at arrival whether a request enters the system at all.
//
// Refusing early is cheaper than missing a deadline late: nothing was computed yet.

#pragma once

#include "schedulers/model/decisions.hpp"
#include "schedulers/model/load_view.hpp"
#include "schedulers/model/request_view.hpp"
#include "schedulers/policy/policy.hpp"

namespace troupe::sched {

/// Admits or rejects one request.
///
/// Contract, on top of the one in policy.hpp:
///   Cost     O(1)
///   Errors   always a value; "reject" is one
///
/// Source: policies.md section 8 "Admission", estimate of section 2.1.
class AdmissionPolicy : public Policy {
public:
  /// @param load  may be zero ranks when nothing is known yet
  /// @post  a value and a reason are set
  virtual Decision<Admission> admit(const RequestView& request, const LoadView& load,
                                    const PolicyContext& ctx) noexcept = 0;
};

} // namespace troupe::sched
