// A policy as a host of a later minor version would ask it: every struct and every view is longer
// than the library knows.

#pragma once

#include "schedulers/plugin/plugin_table.hpp"

namespace troupe::sched::conformance {

/// The same policy behind tables that lengthen its questions, its calls and its answers by bytes
/// that mean nothing here. What it answers must not change.
///
/// C tables carry no data of the host, so `policy` stands in for all of its kind until the next
/// call of this function: instances made before belong to the policy of their time.
PluginPolicy stretched(const PluginPolicy& policy);

} // namespace troupe::sched::conformance
