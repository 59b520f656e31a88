// A policy of a library as a policy like any other: C table → C++ policy.
//
// Nothing that a library returns is believed: sizes, counts, reasons and ranges are checked here,
// and the host's check of the kind (policy/validate.hpp) comes on top.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/plugin/call_runner.hpp"
#include "schedulers/plugin/plugin_table.hpp"
#include "schedulers/policy/policy.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::sched {

/// How long calls may take; kept by runners that can.
struct PluginLimits {
  std::int64_t decide_us = 1000; ///< Each call but create.
  std::int64_t create_ms = 5000;
};

/// What became of the calls of one instance.
struct PluginCounts {
  std::int64_t calls = 0;  ///< Of decide, those included that could not be made.
  std::int64_t failed = 0; ///< Returned an error, threw, or answered what nobody may.
  std::int64_t late = 0;
  std::int64_t busy = 0; ///< Not made, because a late one still ran.
  std::int64_t observations_lost = 0;
};

/// What loaded policies of all kinds have in common.
class LoadedPolicy {
public:
  virtual ~LoadedPolicy() = default;
  virtual const PluginCounts& counts() const noexcept = 0;
};

/// Makes an instance with `options`, one JSON object as the policy's schema wants it.
///
/// Errors name what create did: its own words, or that it did not return in time.
/// The result is a LoadedPolicy too.
///
/// @param library  keeps the code loaded while the instance lives
Result<std::unique_ptr<Policy>> make_plugin_policy(const PluginPolicy& policy,
                                                   std::shared_ptr<const void> library,
                                                   const std::string& options,
                                                   const PluginLimits& limits,
                                                   const RunnerMaker& make_runner);

} // namespace troupe::sched
