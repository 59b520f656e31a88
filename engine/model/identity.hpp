// Which checkpoint this is, without reading a weight.

#pragma once

#include "engine/model/safetensors.hpp"
#include "schedulers/core/result.hpp"

#include <string>

namespace troupe::engine {

/// XXH3-128, as 32 hex digits, over the files that decide answers (config.json, the index,
/// tokenizer.json, encoding.json, generation_config.json, engram.json; an absent one counts as
/// absent) and over name, size and header of every shard. The folder's own path does not enter.
///
///   Cost     reads the named files and headers, never weights
Result<std::string> checkpoint_identity(const std::string& folder, const Checkpoint& checkpoint);

/// The same over config.json and generation_config.json alone, for engines without weights.
Result<std::string> config_identity(const std::string& folder);

} // namespace troupe::engine
