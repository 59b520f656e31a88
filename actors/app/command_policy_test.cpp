// `troupe policy test LIB`: is a library of policies fit to be used?

#include "actors/app/commands.hpp"
#include "actors/app/policy_test.hpp"

#include <cstdio>

namespace troupe::app {

int command_policy_test(const PolicyTestArguments& arguments) {
  PolicyTestOptions options;
  options.library = arguments.library;
  options.seed = arguments.seed;
  options.decide_us = arguments.decide_us;
  options.create_ms = arguments.create_ms;
  options.policy = arguments.policy;
  if (arguments.is_child) policy_test_child(options, arguments.digest);
  const auto report = test_library(options);
  if (!report.ok()) return fail(kExitRefused, report.error().message);
  const std::string text = arguments.json ? policy_test_json(*report) + "\n"
                                          : policy_test_text(*report, arguments.library);
  std::fputs(text.c_str(), stdout);
  return report->ok() ? kExitDone : kExitPartial;
}

} // namespace troupe::app
