// Facts of a checkpoint folder.

#include "engine/inspect.hpp"

#include "engine/kv/layout.hpp"
#include "engine/model/facts.hpp"
#include "engine/model/file.hpp"
#include "engine/model/identity.hpp"

#include <array>

namespace troupe::engine {

namespace {

/// One group a dtype or kind, in a fixed order, without empty ones.
std::vector<TensorGroup> without_empty(std::span<const TensorGroup> groups) {
  std::vector<TensorGroup> kept;
  for (const TensorGroup& group : groups) {
    if (group.tensors > 0) kept.push_back(group);
  }
  return kept;
}

void count_tensors(const Checkpoint& checkpoint, InspectFacts& facts) {
  std::array<TensorGroup, kDTypes> dtypes;
  std::array<TensorGroup, kTensorKinds> kinds;
  for (std::size_t i = 0; i < kDTypes; ++i)
    dtypes[i].name = dtype_name(static_cast<DType>(i));
  for (std::size_t i = 0; i < kTensorKinds; ++i) {
    kinds[i].name = tensor_kind_name(static_cast<TensorKind>(i));
    kinds[i].used = tensor_kind_used(static_cast<TensorKind>(i));
  }
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    for (TensorGroup* group : {&dtypes[static_cast<std::size_t>(tensor.dtype)],
                               &kinds[static_cast<std::size_t>(tensor_kind(tensor.name))]}) {
      ++group->tensors;
      group->bytes += tensor.size_bytes;
    }
    facts.tensor_bytes += tensor.size_bytes;
  }
  facts.tensors = std::ssize(checkpoint.tensors());
  facts.dtypes = without_empty(dtypes);
  facts.kinds = without_empty(kinds);
  for (const TensorGroup& group : facts.kinds) {
    if (group.used) facts.used_bytes += group.bytes;
  }
}

KvMemory memory_of(const ModelConfig& config, KvFormat format, const InspectOptions& options) {
  KvMemory memory;
  memory.kv_format = kv_format_name(format);
  const auto layout = make_kv_layout(config, format, options.block_tokens);
  if (!layout.ok()) {
    memory.problem = layout.error().message;
    return memory;
  }
  memory.slot_bytes = layout->slot_bytes;
  memory.block_bytes = layout->block_bytes;
  memory.slots = options.sequences_max;
  memory.token_bytes = (layout->block_bytes + options.block_tokens - 1) / options.block_tokens;
  const std::int64_t left = options.kv_memory_bytes - memory.slots * memory.slot_bytes;
  if (left < memory.block_bytes) {
    memory.problem = "kv.memory: found " + std::to_string(options.kv_memory_bytes) +
                     " bytes, expected at least " +
                     std::to_string(memory.slots * memory.slot_bytes + memory.block_bytes) +
                     " for " + std::to_string(memory.slots) +
                     " state slots and one block; raise kv.memory or lower limits.sequences_max";
    return memory;
  }
  memory.blocks = left / memory.block_bytes;
  memory.context_tokens = memory.blocks * options.block_tokens;
  return memory;
}

} // namespace

Result<InspectFacts> inspect_checkpoint(const std::string& folder, const InspectOptions& options) {
  InspectFacts facts;
  facts.folder = folder;
  auto config = read_model_config(folder);
  if (!config) return config.error();
  auto checkpoint = Checkpoint::open(folder, CheckpointMode::headers);
  if (!checkpoint) return checkpoint.error();
  auto identity = checkpoint_identity(folder, *checkpoint);
  if (!identity) return identity.error();
  facts.config = std::move(*config);
  facts.identity = std::move(*identity);
  facts.shards = std::ssize(checkpoint->shards());
  for (const ShardInfo& shard : checkpoint->shards())
    facts.file_bytes += shard.file_bytes;
  count_tensors(*checkpoint, facts);
  const std::int64_t declared = checkpoint->declared_bytes().value_or(facts.tensor_bytes);
  if (declared != facts.tensor_bytes) {
    facts.size_note = "the index says total_size " + std::to_string(declared) +
                      ", the tensors have " + std::to_string(facts.tensor_bytes) + " bytes";
  }
  facts.inventory = check_inventory(facts.config, *checkpoint);
  for (const KvFormat format : {KvFormat::packed, KvFormat::f32}) {
    facts.memory.push_back(memory_of(facts.config, format, options));
  }
  return facts;
}

Status check_complete(const InspectFacts& facts) {
  if (facts.complete()) return {};
  if (!facts.config.engram.incomplete.empty()) {
    return {ErrorCode::unsupported, facts.config.engram.incomplete};
  }
  const InventoryReport& found = facts.inventory;
  std::string message;
  if (found.wrong.empty()) {
    message = facts.folder + ": tensor " + in_quotes(found.missing.front()) +
              ": is missing in all " + std::to_string(facts.shards) +
              " of its files, expected by config.json";
  } else {
    message = found.wrong_in.front() + ": " + found.wrong.front() + " by config.json";
  }
  const std::size_t others = found.wrong.size() + found.missing.size() - 1;
  if (others > 0)
    message += ", and " + std::to_string(others) + " tensors more are wrong or missing";
  return {ErrorCode::bad_checkpoint, message + "; fetch the checkpoint again; `troupe inspect " +
                                         facts.folder + "` lists all"};
}

Result<ModelFacts> model_facts(const InspectFacts& facts, const EngineOptions& options) {
  return facts_of(facts.config, facts.identity, options);
}

} // namespace troupe::engine
