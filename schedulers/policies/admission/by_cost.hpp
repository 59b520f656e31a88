// Refuses a request whose first token would miss its deadline by the queue estimate.

#pragma once

#include "schedulers/policy/admission_policy.hpp"

#include <cstdint>

namespace troupe::sched {

struct ByCostOptions {
  /// How far beyond the deadline the estimate may lie, as a share of the time left.
  /// Unit: thousandths (written as a number, 0.5 = half). Default 0. Range 0 to 10. Hot: yes.
  std::int64_t margin_permille = 0;
};

/// Predicted time to first token = waiting work per rank + least work of a rank + own steps.
///
/// Admits without asking when there is no deadline, or no load report yet.
/// Source: policies.md sections 2.1 and 8.
class ByCostAdmission final : public AdmissionPolicy {
public:
  explicit ByCostAdmission(const ByCostOptions& options) : options_(options) {}

  Decision<Admission> admit(const RequestView& request, const LoadView& load,
                            const PolicyContext& ctx) noexcept override;

private:
  ByCostOptions options_;
};

} // namespace troupe::sched
