// `troupe inspect DIR`: what a checkpoint is made of and what a rank needs for it.

#include "actors/app/commands.hpp"
#include "actors/app/config_loader.hpp"
#include "engine/inspect.hpp"

#include <cstdio>

namespace troupe::app {

int command_inspect(const InspectArguments& arguments) {
  const ConfigOutcome loaded = load_system_config(arguments.common.config, arguments.common.sets);
  if (!loaded.ok()) {
    return fail(kExitRefused, error_lines(loaded.errors));
  }
  const std::string folder = arguments.model.empty() ? loaded.config.model.path : arguments.model;
  if (folder.empty()) {
    return fail(kExitRefused, "inspect: no model: name its folder, or set model.path");
  }
  engine::InspectOptions options;
  options.block_tokens = loaded.config.kv.block_tokens;
  options.kv_memory_bytes = loaded.config.kv.memory_bytes;
  options.sequences_max = loaded.config.limits.sequences_max;
  const auto facts = engine::inspect_checkpoint(folder, options);
  if (!facts) {
    return fail(exit_code_of(facts.error()), facts.error().message);
  }
  const std::string text =
      arguments.common.json ? engine::inspect_json(*facts) : engine::inspect_text(*facts);
  std::fputs(text.c_str(), stdout);
  if (!text.empty() && text.back() != '\n') {
    std::fputc('\n', stdout);
  }
  return facts->complete() ? kExitDone : kExitPartial;
}

} // namespace troupe::app
