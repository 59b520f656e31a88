// TOML → a system configuration and a policy set, or messages with a place.
//
// Lines that begin with "#set " are overrides of the command line.

#include "actors/app/config_loader.hpp"
#include "actors/app/policy_text.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "tests/fuzz/fuzz_target.hpp"

#include <vector>

namespace {

using namespace troupe;

std::vector<std::string> overrides_in(std::string_view text) {
  constexpr std::string_view kMark = "#set ";
  std::vector<std::string> overrides;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.starts_with(kMark)) overrides.emplace_back(line.substr(kMark.size()));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return overrides;
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const sched::PolicyRegistry registry = [] {
    sched::PolicyRegistry made;
    sched::register_builtin_policies(made);
    return made;
  }();
  const std::string_view text = fuzz::text_of(data, size);
  const auto system = app::parse_system_config(text, "dir/system.toml", overrides_in(text));
  for (const app::ConfigError& error : system.errors)
    fuzz::require(!error.file.empty() && !error.message.empty(), "an error has a place and words");
  if (system.ok()) {
    const std::string shown = app::show_system_config(system.config, system.given);
    const auto again = app::parse_system_config(shown, "dir/system.toml");
    fuzz::require(again.ok(), "what is shown loads");
    fuzz::require(app::show_system_config(again.config, system.given) == shown,
                  "what is shown loads to the same");
  }
  const auto policies = app::parse_policy_file(text, "dir/policy.toml", registry);
  for (const app::ConfigError& error : policies.errors)
    fuzz::require(!error.file.empty() && !error.message.empty(), "an error has a place and words");
  fuzz::require(policies.ok() == policies.errors.empty(), "a set, or why not");
  if (policies.ok()) {
    const std::string written = app::policy_set_text(policies.set);
    const auto again = app::parse_policy_file(written, "dir/policy.toml", registry);
    fuzz::require(again.ok() && app::policy_rows(again.set, registry) ==
                                    app::policy_rows(policies.set, registry),
                  "a set that is written reads as the same");
  }
  return 0;
}
