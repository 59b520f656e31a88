// Admits everything: an offline job wants each line answered, however late.

#pragma once

#include "schedulers/policy/admission_policy.hpp"

namespace troupe::sched {

/// Takes no options.
class AlwaysAdmission final : public AdmissionPolicy {
public:
  Decision<Admission> admit(const RequestView& request, const LoadView& load,
                            const PolicyContext& ctx) noexcept override;
};

} // namespace troupe::sched
