// Facts of a checkpoint that need no weights: identity, limits, sampling defaults.

#include "engine/engine.hpp"
#include "engine/model/config.hpp"
#include "engine/model/facts.hpp"
#include "engine/model/identity.hpp"
#include "engine/model/safetensors.hpp"

namespace troupe::engine {

namespace {

Result<std::string> identity_of(const std::string& folder, bool with_weights) {
  if (!with_weights) return config_identity(folder);
  const auto checkpoint = Checkpoint::open(folder, CheckpointMode::headers);
  if (!checkpoint.ok()) return checkpoint.error();
  return checkpoint_identity(folder, *checkpoint);
}

} // namespace

Result<ModelFacts> facts_of(const ModelConfig& config, std::string identity,
                            const EngineOptions& options) {
  if (options.context_max > config.context_max) {
    return Error{ErrorCode::bad_argument,
                 "model.context_max: found " + std::to_string(options.context_max) +
                     ", the checkpoint allows at most " + std::to_string(config.context_max) +
                     " tokens; use a smaller value, or 0 for what the checkpoint says"};
  }
  ModelFacts facts;
  facts.identity = std::move(identity);
  facts.vocab = config.vocab;
  facts.context_max = options.context_max > 0 ? options.context_max : config.context_max;
  facts.eos_ids = config.eos_tokens;
  facts.layers = config.layers;
  facts.experts = config.experts;
  facts.temperature = config.generation.temperature;
  facts.top_p = config.generation.top_p;
  facts.top_k = config.generation.top_k;
  return facts;
}

Result<ModelFacts> describe_model(const EngineOptions& options, bool with_weights) {
  const auto config = read_model_config(options.model_path);
  if (!config.ok()) return config.error();
  auto identity = identity_of(options.model_path, with_weights);
  if (!identity.ok()) return identity.error();
  return facts_of(*config, std::move(*identity), options);
}

} // namespace troupe::engine
