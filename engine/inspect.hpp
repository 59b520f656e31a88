// What `troupe inspect` tells about a checkpoint folder, from small files and headers alone.

#pragma once

#include "engine/engine.hpp"
#include "engine/model/config.hpp"
#include "engine/model/inventory.hpp"
#include "schedulers/core/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::engine {

/// The settings of a rank that memory follows from.
struct InspectOptions {
  std::int64_t block_tokens = 64;
  std::int64_t kv_memory_bytes = 512LL << 20;
  std::int64_t sequences_max = 64;
};

/// Tensors of one dtype or kind.
struct TensorGroup {
  std::string name;
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;
  bool used = true; ///< false: present, but read past.
};

/// What one rank needs for its sequences in one kv format.
struct KvMemory {
  std::string kv_format; ///< "packed" or "f32".
  std::int64_t slot_bytes = 0;
  std::int64_t block_bytes = 0;
  std::int64_t slots = 0;
  std::int64_t blocks = 0;         ///< In kv_memory_bytes, after the slots.
  std::int64_t context_tokens = 0; ///< That these blocks hold.
  std::int64_t token_bytes = 0;    ///< Of a block, per token, rounded up.
  std::string problem;             ///< Why these settings do not work; empty when they do.
};

struct InspectFacts {
  std::string folder;
  std::string identity;
  ModelConfig config;
  std::int64_t shards = 0;
  std::int64_t tensors = 0;
  std::int64_t file_bytes = 0; ///< Of all shards.
  std::int64_t tensor_bytes = 0;
  std::int64_t used_bytes = 0; ///< What the weights of one process take, about.
  std::string size_note;       ///< When the index says another total; empty otherwise.
  std::vector<TensorGroup> dtypes;
  std::vector<TensorGroup> kinds;
  InventoryReport inventory;
  std::vector<KvMemory> memory; ///< Packed, then f32.

  /// True when nothing that this build needs is missing or wrong.
  bool complete() const {
    return inventory.missing.empty() && inventory.wrong.empty() && config.engram.incomplete.empty();
  }
};

/// Reads configuration and headers of a checkpoint folder; no weight is touched.
///
///   Cost     full size (96,085 tensors) in well under a minute and a few hundred MB
///   Errors   those of read_model_config and Checkpoint::open
Result<InspectFacts> inspect_checkpoint(const std::string& folder, const InspectOptions& options);

/// Ok, or the first thing that keeps the checkpoint from being run, with the number of others.
Status check_complete(const InspectFacts& facts);

/// What describe_model says about the checkpoint, without reading it a second time.
Result<ModelFacts> model_facts(const InspectFacts& facts, const EngineOptions& options);

/// For a person: a page of text; long lists of names are cut and counted.
std::string inspect_text(const InspectFacts& facts);

/// One JSON document with everything in InspectFacts; lists are not cut.
std::string inspect_json(const InspectFacts& facts);

} // namespace troupe::engine
