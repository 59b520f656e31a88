// Ways a checkpoint folder can be damaged, as a table: what is done to a sound one, who must
// notice, and what the one message must hold. Read by a test of the loaders and by one of the
// executable.

#pragma once

#include "tests/support/tiny_checkpoint.hpp"

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace troupe::test {

/// The first step that must refuse the folder; every step from there on does, with one message.
enum class Noticed {
  config,    ///< config.json and its companions.
  headers,   ///< Index and headers of the shards.
  inventory, ///< Tensors against the configuration: `inspect` lists them, loading names one.
  values,    ///< Weights themselves: only loading reads them.
  tokenizer, ///< tokenizer.json: not `inspect`.
  encoding   ///< encoding.json: chat only.
};

struct Damage {
  std::string name;
  Noticed noticed = Noticed::headers;
  std::function<void(TinyCheckpoint&)> change;     ///< Before it is written; may be empty.
  std::function<void(const std::string&)> destroy; ///< The written folder; may be empty.
  std::vector<std::string> parts;                  ///< Of the message.
};

/// How a failed test shows it.
inline void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

/// Damage to shards, index and folder.
std::vector<Damage> damaged_weights();
/// Damage to config.json, generation_config.json, engram.json.
std::vector<Damage> damaged_configs();
/// Damage to tokenizer.json and encoding.json.
std::vector<Damage> damaged_texts();

/// All of them.
std::vector<Damage> all_damages();

} // namespace troupe::test
