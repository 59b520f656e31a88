// A whole, valid checkpoint of under a megabyte that every command takes, to be changed and
// written.

#pragma once

#include "tests/support/checkpoint_files.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <string>

namespace troupe::test {

/// Four layers of width 32 with compressed rows, Engram and two experts; the bundled model's
/// tokenizer and chat format. Weights are small numbers in the published encodings.
struct TinyCheckpoint {
  TinyCheckpoint();

  nlohmann::ordered_json config;
  nlohmann::ordered_json generation;
  nlohmann::ordered_json engram;
  std::map<std::string, TensorSpec> tensors;
  std::map<std::string, std::string> files; ///< tokenizer.json, encoding.json.

  /// The text_config of config.json, where most numbers stand.
  nlohmann::ordered_json& text() { return config["text_config"]; }

  /// Writes both shards, their index and all other files.
  void write(const std::string& folder) const;
};

/// Names of the two shards: the tensors up to "layers.2." lie in the first.
inline constexpr const char* kTinyShards[] = {"model-00001-of-00002.safetensors",
                                              "model-00002-of-00002.safetensors"};
inline constexpr const char* kTinyIndex = "model.safetensors.index.json";

} // namespace troupe::test
