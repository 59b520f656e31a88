// The door of the engine: open, step, describe, export and import a sequence.
//
// It is narrow on purpose. The engine owns bytes (weights, kv blocks, state slots) and computes; it
// never decides and never frees. Which block and which slot belong to whom is accounted by
// schedulers/stage/rank_stage; text, reasons and policies stay outside.

#pragma once

#include "engine/step.hpp"
#include "schedulers/core/digest.hpp"
#include "schedulers/core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe::engine {

/// What is fixed when an engine is opened.
struct EngineOptions {
  std::string model_path;                      ///< Checkpoint folder.
  std::string activation_quant = "checkpoint"; ///< "checkpoint" or "off".
  std::string cpu_path = "auto";               ///< "auto", "scalar", "avx2".
  std::int64_t context_max = 0;                ///< Tokens; 0 = what the checkpoint says.
  std::int64_t block_tokens = 64;              ///< Multiple of every compression ratio.
  std::int64_t kv_memory_bytes = 512LL << 20;  ///< Slots first, the rest is blocks.
  std::int64_t sequences_max = 64;             ///< State slots.
  std::int64_t step_tokens_max = 512;
  int threads = 1;
};

/// Timing model of the null engine, in picoseconds (policies.md section 1).
struct NullTiming {
  std::int64_t step_ps = 0;
  std::int64_t token_ps = 0;
  std::int64_t pair_ps = 0;
  std::int64_t sequence_ps = 0;
  std::int64_t context_token_ps = 0;
  double speed = 0.0; ///< 0 = at once, 1 = as modelled.
  bool sleep = true;  ///< false: only reported as compute_us, when the caller's clock is virtual.
};

/// What callers may know about the opened model.
struct ModelFacts {
  std::string identity; ///< Digest of config, index, tokenizer and shard headers, hex.
  std::int64_t vocab = 0;
  std::int64_t context_max = 0; ///< Tokens of prompt and answer together.
  std::vector<std::int32_t> eos_ids;
  std::int64_t layers = 0;
  std::int64_t experts = 0; ///< Routed experts per layer.
  std::string cpu_path;     ///< The path in use: "scalar", "avx2", "null"; "" before it is opened.
  // For sampling fields that a request leaves out.
  double temperature = 1.0;
  double top_p = 1.0;
  std::int64_t top_k = 0;
};

/// Sizes of the two resources. Printed at start, accounted by rank_stage.
struct KvFacts {
  std::int64_t block_tokens = 0;
  std::int64_t blocks = 0;
  std::int64_t block_bytes = 0;
  std::int64_t slots = 0;
  std::int64_t slot_bytes = 0;
  std::string kv_format; ///< "packed" or "f32"; "null" without weights.
  std::uint64_t layout_id =
      0; ///< Changes whenever the bytes of a block or slot mean something else.
};

/// Bytes and digest of one region of a sequence.
struct RegionFacts {
  std::int64_t bytes = 0;
  Digest digest;
};

/// Describes an exported sequence: everything an importer must agree on.
struct KvManifest {
  std::uint32_t version = 1;
  std::string model_identity;
  std::string kv_format;
  std::uint64_t layout_id = 0;
  std::int64_t block_tokens = 0;
  std::int64_t positions = 0; ///< Tokens held.
  std::string cpu_path;
  std::vector<RegionFacts> regions; ///< State slot first, then the blocks in order.
};

/// An exported sequence: the manifest and where its bytes lie until the owner releases the blocks.
struct KvExport {
  KvManifest manifest;
  std::vector<std::span<const std::byte>> regions; ///< As in the manifest.
};

/// One opened engine: one device, one set of kv blocks and state slots.
///
///   Thread   one caller at a time; `export_kv` regions may be read by others while they are pinned
///   Errors   of one sequence are in StepResult::status; of the whole step in the Result
class Engine {
public:
  virtual ~Engine() = default;

  virtual const ModelFacts& model() const noexcept = 0;
  virtual const KvFacts& kv() const noexcept = 0;

  /// Runs one step. Tokens and log-probabilities do not depend on what else is in the plan, on how
  /// a prompt is cut, on block ids or on threads.
  ///
  /// @pre plan obeys step.hpp; a plan that does not gives ErrorCode::bad_plan and changes nothing
  virtual Result<StepResult> step(const StepPlan& plan) = 0;

  /// Describes the sequence in `slot`, whose blocks are `blocks` in order.
  virtual Result<KvExport> export_kv(StateSlotId slot, std::span<const KvBlockId> blocks) = 0;

  /// Memory that an import fills: state slot first, then the blocks. Owned by the engine.
  virtual Result<std::vector<std::span<std::byte>>>
  import_regions(StateSlotId slot, std::span<const KvBlockId> blocks) = 0;

  /// Takes over a sequence whose bytes lie in import_regions(); checks manifest and digests.
  virtual Status import_kv(const KvManifest& manifest, StateSlotId slot,
                           std::span<const KvBlockId> blocks) = 0;
};

/// What a checkpoint says about itself, read from its small files and headers.
///
/// @param with_weights  false for the null engine: the identity is that of the configuration alone
Result<ModelFacts> describe_model(const EngineOptions& options, bool with_weights);

/// The weights of one checkpoint, shared by all engines of a process on one device.
class Weights;

/// Loads and packs the weights; the file mapping is dropped before this returns.
Result<std::shared_ptr<const Weights>> load_weights(const EngineOptions& options);

/// Opens a CPU engine on shared weights.
Result<std::unique_ptr<Engine>> open_cpu_engine(std::shared_ptr<const Weights> weights,
                                                const EngineOptions& options);

/// Opens an engine without weights: made-up tokens from (seed, output position), times from the
/// cost model, blocks and slots accounted as in the real one. Reads no weights and no headers: of
/// the model it needs config.json alone. StepResult::compute_us is the modelled time times speed.
Result<std::unique_ptr<Engine>> open_null_engine(const EngineOptions& options,
                                                 const NullTiming& timing);

} // namespace troupe::engine
