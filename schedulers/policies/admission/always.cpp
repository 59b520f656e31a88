#include "schedulers/policies/admission/always.hpp"

namespace troupe::sched {

Decision<Admission> AlwaysAdmission::admit(const RequestView& /*request*/, const LoadView& /*load*/,
                                           const PolicyContext& /*ctx*/) noexcept {
  return {Admission::admit, Reason::admitted};
}

} // namespace troupe::sched
