// `troupe config check|show FILE`: is a configuration valid, and what does it come to.

#include "actors/app/commands.hpp"
#include "actors/app/config_loader.hpp"
#include "actors/app/control_documents.hpp"
#include "actors/app/job_setup.hpp"

#include <cstdio>

namespace troupe::app {

namespace {

int refuse(const ConfigArguments& arguments, const std::vector<ConfigError>& errors) {
  if (!arguments.common.json) return fail(kExitRefused, error_lines(errors));
  std::puts(check_document(errors).c_str());
  return kExitRefused;
}

int say_valid(const ConfigArguments& arguments, const char* what) {
  if (arguments.common.json) {
    std::puts(check_document({}).c_str());
  } else if (!arguments.common.quiet) {
    std::fprintf(stderr, "troupe: %s: valid%s\n", arguments.file.c_str(), what);
  }
  return kExitDone;
}

/// A policy file in place of a system file: it is known what was meant.
int take_policy_file(const ConfigArguments& arguments, const sched::PolicyRegistry& registry) {
  if (!arguments.show) {
    const PolicyOutcome outcome = load_policy_file(arguments.file, registry);
    return outcome.ok() ? say_valid(arguments, ", as a policy file")
                        : refuse(arguments, outcome.errors);
  }
  return refuse(arguments,
                {{arguments.file, 0, "",
                  "this is a policy file, expected a system file; `troupe policy check " +
                      arguments.file + "` shows what it comes to"}});
}

} // namespace

int command_config(const ConfigArguments& arguments) {
  const auto registry = program_policies();
  if (is_policy_file(arguments.file, *registry)) return take_policy_file(arguments, *registry);
  ConfigOutcome outcome = load_system_config(arguments.file, arguments.common.sets);
  if (outcome.ok() && !outcome.config.policies_file.empty()) {
    outcome.errors = load_policy_file(outcome.config.policies_file, *registry).errors;
  }
  if (!outcome.ok()) return refuse(arguments, outcome.errors);
  if (!arguments.show) return say_valid(arguments, "");
  const std::string text = arguments.common.json
                               ? show_system_config_json(outcome.config, outcome.given) + "\n"
                               : show_system_config(outcome.config, outcome.given);
  std::fputs(text.c_str(), stdout);
  return kExitDone;
}

} // namespace troupe::app
