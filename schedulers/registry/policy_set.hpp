// One policy set as plain data: what is swapped, recorded and sent to every stage.
//
// Stages never share policy objects: each builds its own instances from the set, so that a policy
// needs no lock.

#pragma once

#include "schedulers/core/ids.hpp"
#include "schedulers/core/options.hpp"

#include <map>
#include <string>

namespace troupe::sched {

/// The policy chosen for one kind, with the options the user wrote.
struct PolicySpec {
  std::string policy;  ///< Registered name, as "least_work".
  OptionTable options; ///< Without the key `policy`.
};

/// A named set; a kind that is left out uses its documented default.
struct PolicySet {
  PolicyEpoch epoch{1};
  std::string name = "default";
  std::map<std::string, PolicySpec> kinds; ///< Kind name ("prefill_router") to choice.
};

} // namespace troupe::sched
