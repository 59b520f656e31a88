// What a V4.1 checkpoint says about itself: config.json, engram.json, generation_config.json.
//
// Read and validated once; every number in here is in range and every relation between numbers
// holds, so later code divides and indexes without looking. Layout of config.json as published:
// a composite with text_config and vision_config.

#pragma once

#include "schedulers/core/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::engine {

/// YaRN parameters of layers with compressed rows.
struct YarnConfig {
  double factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
  std::int64_t original_context = 0; ///< Tokens.
};

/// N-gram tables at the entry of some layers. Index i of every list is the i-th Engram layer.
struct EngramConfig {
  std::vector<std::int64_t> layers; ///< Ascending; empty = no Engram.
  std::vector<std::int64_t> rows;   ///< Of the table: sum of its primes.
  std::int64_t ngram_max = 0;       ///< Longest n-gram; look-back is one less.
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t pad_token = 0;
  std::int64_t compressed_vocab = 0;
  std::vector<std::vector<std::int64_t>> multipliers; ///< [layers][ngram_max]
  std::vector<std::vector<std::int64_t>> primes;      ///< [layers][(ngram_max - 1) * heads]
  std::vector<std::vector<std::int64_t>> offsets;     ///< As primes: running sums within a layer.
  std::vector<std::int32_t> token_map; ///< [vocab] to compressed ids; empty = identity.
  std::string incomplete;              ///< Why hash ids cannot be computed; empty when they can.

  /// Hash ids of one position of one layer.
  std::int64_t ids() const noexcept { return (ngram_max - 1) * heads; }
};

/// Sizes of the draft module; its tensors are present and unused.
struct DraftConfig {
  std::int64_t stages = 0;
  std::int64_t experts = 0;
  std::int64_t markov_rank = 0;
  std::vector<std::int64_t> target_layers;
};

/// Sizes of the vision tower; its tensors are present and unused.
struct VisionConfig {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t patch_size = 0;
  std::int64_t downsample = 0;
};

/// Defaults for sampling fields that a request leaves out.
struct GenerationConfig {
  double temperature = 1.0; ///< 0 when the file says do_sample = false.
  double top_p = 1.0;
  std::int64_t top_k = 0;
};

/// Dimensions and constants of one checkpoint.
struct ModelConfig {
  std::int64_t vocab = 0;
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t context_max = 0; ///< max_position_embeddings, tokens.
  double norm_eps = 0;

  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t rope_dim = 0; ///< Trailing channels that are rotated.
  std::int64_t q_lora = 0;
  std::int64_t o_groups = 0;
  std::int64_t o_lora = 0;
  std::int64_t window = 0; ///< Rows a query sees, its own included.
  double rope_theta = 0;
  double compress_rope_theta = 0;
  YarnConfig yarn;

  std::vector<std::int64_t> ratios;        ///< [layers] 0, 1 or 2.
  std::vector<std::int64_t> kv_sources;    ///< Ascending layers that own rows and index keys.
  std::vector<std::int64_t> index_sources; ///< Ascending layers that choose rows.
  std::int64_t index_heads = 0;
  std::int64_t index_head_dim = 0;
  std::int64_t index_topk = 0;
  std::int64_t candidate_source = 0;     ///< The layer whose scores choose the blocks.
  std::int64_t candidate_blocks = 0;     ///< Blocks kept.
  std::int64_t candidate_block_size = 0; ///< Rows in a block.

  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t moe_intermediate = 0;
  double routed_scaling = 1;
  double gate_temp = 1;
  double swiglu_limit = 0;

  std::int64_t hc_streams = 0;
  std::int64_t hc_iterations = 0;
  double hc_eps = 0;

  EngramConfig engram;
  DraftConfig draft;
  std::optional<VisionConfig> vision;
  GenerationConfig generation;

  std::int64_t bos_token = 0;
  std::vector<std::int32_t> eos_tokens; ///< Of generation_config.json, else of config.json.
  std::int64_t pad_token = 0;
  std::optional<std::int64_t> image_token;

  bool has_rows(std::int64_t layer) const { return ratios[static_cast<std::size_t>(layer)] > 0; }
  std::int64_t ratio(std::int64_t layer) const { return ratios[static_cast<std::size_t>(layer)]; }

  /// Layer whose compressed rows and index keys `layer` reads; -1 for a window-only layer.
  std::int64_t kv_owner(std::int64_t layer) const;
  /// Layer whose chosen rows `layer` uses; -1 for a window-only layer.
  std::int64_t topk_owner(std::int64_t layer) const;
  bool is_kv_source(std::int64_t layer) const;
  bool is_index_source(std::int64_t layer) const;
  /// True when the choice of `layer` is restricted to the candidate blocks.
  bool uses_candidates(std::int64_t layer) const;
  /// Index into the lists of `engram`; -1 when the layer has none.
  std::int64_t engram_index(std::int64_t layer) const;
  /// First layer of the decoder part: the last one that owns rows.
  std::int64_t decoder_start() const { return kv_sources.empty() ? 0 : kv_sources.back(); }
  /// What block_tokens must be a multiple of: every ratio in use, and the tokens of a candidate
  /// block.
  std::int64_t block_multiple() const;
};

/// Reads config.json of a checkpoint folder, then generation_config.json and engram.json where
/// they exist. engram.json overrides whatever could be derived; what is neither there nor derivable
/// is said in EngramConfig::incomplete and is no error here.
///
///   Errors   not_found (no folder), io_error, bad_checkpoint, unsupported; name file and key
Result<ModelConfig> read_model_config(const std::string& folder);

/// Table sizes in the published order: primes ascending from `vocab_size` on, none used twice,
/// layer by layer. [layers][per_layer]. Pure.
std::vector<std::vector<std::int64_t>>
derive_engram_primes(std::int64_t layers, std::int64_t per_layer, std::int64_t vocab_size);

} // namespace troupe::engine
