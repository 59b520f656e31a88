// `troupe config check|show FILE`: is a configuration valid, and what does it come to.

#include "actors/app/commands.hpp"
#include "actors/app/config_loader.hpp"
#include "actors/app/job_setup.hpp"
#include "actors/app/response_body.hpp"
#include "actors/plugin_loader.hpp"

#include <cstdio>

namespace troupe::app {

namespace {

std::string errors_json(const std::vector<ConfigError>& errors) {
  std::string out = errors.empty() ? R"({"ok":true,"errors":[)" : R"({"ok":false,"errors":[)";
  for (const ConfigError& error : errors) {
    if (&error != errors.data()) {
      out += ",";
    }
    out += R"({"file":)" + json_string(error.file);
    out += R"(,"line":)" + std::to_string(error.line);
    out += R"(,"key":)" + json_string(error.key);
    out += R"(,"message":)" + json_string(error.message) + "}";
  }
  return out + "]}";
}

} // namespace

int command_config(const ConfigArguments& arguments) {
  ConfigOutcome outcome = load_system_config(arguments.file, arguments.common.sets);
  if (outcome.ok() && !outcome.config.policies_file.empty()) {
    sched::PolicyRegistry registry;
    sched::register_builtin_policies(registry);
    registry.set_library_source(std::make_shared<actors::PluginLoader>());
    outcome.errors = load_policy_file(outcome.config.policies_file, registry).errors;
  }
  if (outcome.ok()) {
    if (const Status roles = check_roles(outcome.config); !roles.ok()) {
      outcome.errors.push_back({arguments.file, 0, "rank", roles.error().message});
    }
  }
  const bool is_json = arguments.common.json;
  if (!outcome.ok()) {
    if (is_json) {
      std::puts(errors_json(outcome.errors).c_str());
    }
    if (is_json) {
      return kExitRefused;
    }
    return fail(kExitRefused, error_lines(outcome.errors));
  }
  if (!arguments.show) {
    if (is_json) {
      std::puts(errors_json({}).c_str());
    }
    if (!is_json && !arguments.common.quiet) {
      std::fprintf(stderr, "troupe: %s: valid\n", arguments.file.c_str());
    }
    return kExitDone;
  }
  const std::string text = is_json ? show_system_config_json(outcome.config, outcome.given) + "\n"
                                   : show_system_config(outcome.config, outcome.given);
  std::fputs(text.c_str(), stdout);
  return kExitDone;
}

} // namespace troupe::app
