// `troupe policy test`: a library under the suite of its kinds, in child processes only.
//
// A crash or a hang ends a child, not the command: it is a finding of the check that ran.

#pragma once

#include "schedulers/core/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::app {

struct PolicyTestOptions {
  std::string library;
  std::uint64_t seed = 1;
  std::int64_t decide_us = 1'000;
  std::int64_t create_ms = 5'000;
  std::string policy; ///< "KIND/NAME", the only one to test; "" = all.
  /// The program that calls policy_test_child() for `policy test LIB --child ...`.
  std::string program = "/proc/self/exe";
};

struct CheckResult {
  std::string name;
  bool ok = false;
  std::string detail;
};

struct PolicyResult {
  std::string kind;
  std::string name;
  std::vector<CheckResult> checks; ///< In the order in which they ran.
};

struct PolicyTestReport {
  std::vector<CheckResult> library; ///< Of the library itself: load, unload.
  std::vector<PolicyResult> policies;

  bool ok() const noexcept;
};

/// Tests every policy of the library. An error: the file cannot be read at all.
Result<PolicyTestReport> test_library(const PolicyTestOptions& options);

/// One JSON document: {"ok", "library": [checks], "policies": [{"kind", "name", "checks"}]}, each
/// check as {"name", "ok", "detail"}.
std::string policy_test_json(const PolicyTestReport& report);

/// One line a check.
std::string policy_test_text(const PolicyTestReport& report, const std::string& library);

/// The child's side: tests options.policy, or lists all when it is empty; reports on its descriptor
/// and ends the process.
///
/// @param digest  of the file that was looked at before
[[noreturn]] void policy_test_child(const PolicyTestOptions& options, const std::string& digest);

} // namespace troupe::app
