// What an engine tells about its model, from configuration and identity.

#pragma once

#include "engine/engine.hpp"
#include "engine/model/config.hpp"

#include <string>

namespace troupe::engine {

/// Errors: bad_argument when options ask for a longer context than the checkpoint allows.
Result<ModelFacts> facts_of(const ModelConfig& config, std::string identity,
                            const EngineOptions& options);

} // namespace troupe::engine
