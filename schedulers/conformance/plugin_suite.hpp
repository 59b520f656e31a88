// The suite of a loaded policy: that of its kind, and what only libraries can get wrong.

#pragma once

#include "schedulers/conformance/suite.hpp"
#include "schedulers/plugin/plugin_table.hpp"

#include <string>

namespace troupe::sched::conformance {

/// Runs everything against one policy of a library that is loaded; calls run where they are made.
/// Whether every check was ok.
///
/// @param options  one JSON object with the defaults of its schema
bool run_plugin_suite(const PluginPolicy& policy, const std::string& options,
                      const SuiteOptions& suite, const Listener& listener);

} // namespace troupe::sched::conformance
