// Reader of config.json: fields first, then the relations between them.

#include "engine/model/config.hpp"

#include "engine/model/config_parts.hpp"
#include "engine/model/file.hpp"
#include "engine/model/json_fields.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace troupe::engine {

namespace {

// Upper ends of the accepted ranges: far above any published model, low enough that no product of
// a few dimensions overflows 63 bits.
constexpr std::int64_t kVocabMax = 1 << 24;
constexpr std::int64_t kDimMax = 1 << 20;
constexpr std::int64_t kLayersMax = 1024;
constexpr std::int64_t kHeadsMax = 4096;
constexpr std::int64_t kExpertsMax = 1 << 16;
constexpr std::int64_t kAllExpertsMax = 1 << 17; ///< In all layers: each costs names in memory.
constexpr std::int64_t kContextMax = std::int64_t{1} << 40;
constexpr std::int64_t kRowsMax = std::int64_t{1} << 40;
constexpr std::int64_t kStreamsMax = 8;
constexpr std::int64_t kQuantBlock = 32;
constexpr std::int64_t kFileBytesMax = 64'000'000;

void refuse(const JsonObject& object, const std::string& key, const std::string& found,
            const std::string& expected) {
  object.fail(key, "is " + found + ", this build supports " + expected + " only",
              ErrorCode::unsupported);
}

/// A key that may be absent but, when there, must say `only`.
void only_text(const JsonObject& object, const char* key, const char* only) {
  const std::string found = object.text(key, only);
  if (found != only) refuse(object, key, in_quotes(found), only);
}

void only_boolean(const JsonObject& object, const char* key, bool only) {
  const bool found = object.boolean(key, only);
  if (found != only) refuse(object, key, found ? "true" : "false", only ? "true" : "false");
}

void only_integer(const JsonObject& object, const char* key, std::int64_t only) {
  const std::int64_t found = object.integer(key, INT64_MIN, INT64_MAX, only);
  if (found != only) refuse(object, key, std::to_string(found), std::to_string(only));
}

void read_top(const JsonObject& top, ModelConfig& config) {
  if (top.has("model_type") || !top.has("text_config")) {
    const std::string type = top.text("model_type");
    if (type != "deepseek_v41") refuse(top, "model_type", in_quotes(type), "deepseek_v41");
  }
  config.bos_token = top.integer("bos_token_id", 0, kVocabMax, 0);
  for (const std::int64_t id : top.one_or_more("eos_token_id", 0, kVocabMax)) {
    config.eos_tokens.push_back(static_cast<std::int32_t>(id));
  }
  config.pad_token = top.integer("pad_token_id", 0, kVocabMax, 0);
  if (top.has("image_token_id")) {
    config.image_token = top.integer("image_token_id", 0, kVocabMax);
  }
  if (!top.has("quantization_config")) return;
  const JsonObject quant = top.object("quantization_config");
  only_text(quant, "quant_method", "fp8");
  only_text(quant, "activation_scheme", "dynamic");
  only_text(quant, "scale_fmt", "ue8m0");
  only_text(quant, "expert_dtype", "fp4");
  if (quant.has("weight_block_size")) {
    const auto block = quant.integers("weight_block_size", 1, kDimMax);
    if (block != std::vector<std::int64_t>{kQuantBlock, kQuantBlock}) {
      refuse(quant, "weight_block_size", "another block", "[32, 32]");
    }
  }
}

void refuse_other_architectures(const JsonObject& text) {
  only_text(text, "model_type", "deepseek_v41_text");
  only_text(text, "scoring_func", "sqrtsoftplus");
  only_text(text, "topk_method", "noaux_tc");
  only_text(text, "hidden_act", "silu");
  only_boolean(text, "norm_topk_prob", true);
  only_boolean(text, "tie_word_embeddings", false);
  only_boolean(text, "attention_bias", false);
  only_boolean(text, "hc_shifted", true);
  only_boolean(text, "dspark_target_attn_input", true);
  only_boolean(text, "use_fp4_sparse_kv", true);
  only_integer(text, "num_key_value_heads", 1);
  only_integer(text, "n_shared_experts", 1);
  only_integer(text, "num_hash_layers", 0);
  for (const std::string& key : text.keys()) {
    if (key.starts_with("hc_") && key.ends_with("_norm") && text.has(key.c_str())) {
      refuse(text, key, "present", "hyper-connections without a norm of their own");
    }
  }
}

void read_attention(const JsonObject& text, ModelConfig& config) {
  config.heads = text.integer("num_attention_heads", 1, kHeadsMax);
  config.head_dim = text.integer("head_dim", 1, kDimMax);
  config.rope_dim = text.integer("qk_rope_head_dim", 2, kDimMax);
  config.q_lora = text.integer("q_lora_rank", 1, kDimMax);
  config.o_groups = text.integer("o_groups", 1, kHeadsMax);
  config.o_lora = text.integer("o_lora_rank", 1, kDimMax);
  config.window = text.integer("sliding_window", 1, kDimMax);
  config.rope_theta = text.number("rope_theta", 1, 1e12);
  config.compress_rope_theta = text.number("compress_rope_theta", 1, 1e12);
  config.index_heads = text.integer("index_n_heads", 1, kHeadsMax);
  config.index_head_dim = text.integer("index_head_dim", 1, kDimMax);
  config.index_topk = text.integer("index_topk", 1, kDimMax);
  config.candidate_source = text.integer("candidate_source_layer_id", 0, kLayersMax);
  config.candidate_blocks = text.integer("candidate_topk_blocks", 1, kDimMax);
  config.candidate_block_size = text.integer("candidate_block_size", 1, kDimMax);
  const JsonObject yarn = text.object("rope_scaling");
  const char* type_key = yarn.has("rope_type") ? "rope_type" : "type";
  const std::string type = yarn.text(type_key);
  if (type != "yarn") refuse(yarn, type_key, in_quotes(type), "yarn");
  config.yarn.factor = yarn.number("factor", 1, 1e6);
  config.yarn.beta_fast = yarn.number("beta_fast", 1e-3, 1e6);
  config.yarn.beta_slow = yarn.number("beta_slow", 1e-3, 1e6);
  config.yarn.original_context = yarn.integer("original_max_position_embeddings", 1, kContextMax);
}

void read_mlp(const JsonObject& text, ModelConfig& config) {
  config.experts = text.integer("n_routed_experts", 1, kExpertsMax);
  config.experts_per_token = text.integer("num_experts_per_tok", 1, kExpertsMax);
  config.moe_intermediate = text.integer("moe_intermediate_size", 1, kDimMax);
  config.routed_scaling = text.number("routed_scaling_factor", 0, 1e6);
  config.gate_temp = text.number("gate_temp", 1e-6, 1e6, 1.0);
  config.swiglu_limit = text.number("swiglu_limit", 1e-6, 1e6);
  config.hc_streams = text.integer("hc_mult", 1, kStreamsMax);
  config.hc_iterations = text.integer("hc_sinkhorn_iters", 1, 10'000);
  config.hc_eps = text.number("hc_eps", 0, 1);
}

void read_engram(const JsonObject& text, ModelConfig& config) {
  EngramConfig& engram = config.engram;
  if (!text.has("engram_layer_ids")) return;
  engram.layers = text.integers("engram_layer_ids", 0, kLayersMax);
  if (engram.layers.empty()) return;
  engram.rows = text.integers("engram_num_embeddings", 1, kRowsMax);
  engram.ngram_max = text.integer("engram_max_ngram_size", 2, 16);
  engram.heads = text.integer("engram_n_heads", 1, 1024);
  engram.head_dim = text.integer("engram_head_dim", 1, 1 << 16);
  const bool short_key = text.has("engram_pad_id") && !text.has("engram_pad_token_id");
  engram.pad_token =
      text.integer(short_key ? "engram_pad_id" : "engram_pad_token_id", 0, kVocabMax);
  engram.compressed_vocab = text.integer("engram_compressed_vocab_size", 1, kVocabMax);
}

void read_draft(const JsonObject& text, ModelConfig& config) {
  config.draft.stages = text.integer("num_nextn_predict_layers", 0, 64, 0);
  if (config.draft.stages == 0) return;
  config.draft.experts = text.integer("dspark_n_routed_experts", 1, kExpertsMax);
  config.draft.markov_rank = text.integer("dspark_markov_rank", 1, kDimMax);
  config.draft.target_layers = text.integers("dspark_target_layer_ids", 0, kLayersMax);
}

void read_vision(const JsonObject& top, ModelConfig& config) {
  if (!top.has("vision_config")) return;
  const JsonObject vision = top.object("vision_config");
  config.vision = VisionConfig{vision.integer("num_hidden_layers", 0, kLayersMax, 0),
                               vision.integer("hidden_size", 0, kDimMax, 0),
                               vision.integer("intermediate_size", 0, kDimMax, 0),
                               vision.integer("patch_size", 0, kDimMax, 0),
                               vision.integer("downsample_ratio", 0, kDimMax, 0)};
}

void multiple_of(const JsonObject& text, const char* key, std::int64_t value, std::int64_t factor,
                 const char* why) {
  if (value % factor != 0) {
    text.fail(key, "is " + std::to_string(value) + ", expected a multiple of " +
                       std::to_string(factor) + " (" + why + ")");
  }
}

void check_dimensions(const JsonObject& text, const ModelConfig& config) {
  const char* quant = "the quantisation block";
  multiple_of(text, "hidden_size", config.hidden, kQuantBlock, quant);
  multiple_of(text, "head_dim", config.head_dim, kQuantBlock, quant);
  multiple_of(text, "q_lora_rank", config.q_lora, kQuantBlock, quant);
  multiple_of(text, "moe_intermediate_size", config.moe_intermediate, kQuantBlock, quant);
  multiple_of(text, "index_head_dim", config.index_head_dim, kQuantBlock, quant);
  multiple_of(text, "o_lora_rank", config.o_groups * config.o_lora, kQuantBlock,
              "o_groups times o_lora_rank, the quantisation block");
  multiple_of(text, "num_attention_heads", config.heads, config.o_groups, "o_groups");
  multiple_of(text, "qk_rope_head_dim", config.rope_dim, 2, "rotated in pairs");
  if (config.rope_dim > std::min(config.head_dim, config.index_head_dim)) {
    text.fail("qk_rope_head_dim", "is " + std::to_string(config.rope_dim) +
                                      ", expected at most head_dim and index_head_dim");
  }
  if (config.experts_per_token > config.experts) {
    text.fail("num_experts_per_tok",
              "is " + std::to_string(config.experts_per_token) +
                  ", expected at most n_routed_experts = " + std::to_string(config.experts));
  }
  const std::int64_t all_experts =
      config.layers * config.experts + config.draft.stages * config.draft.experts;
  if (all_experts > kAllExpertsMax) {
    text.fail("n_routed_experts", "makes " + std::to_string(all_experts) +
                                      " experts in all layers and draft stages, expected at most " +
                                      std::to_string(kAllExpertsMax));
  }
  if (config.yarn.beta_fast < config.yarn.beta_slow) {
    text.fail("rope_scaling.beta_fast", "is smaller than beta_slow, expected at least that");
  }
}

/// Reads compress_ratios: one a layer, then a 0 for each draft stage.
void read_ratios(const JsonObject& text, ModelConfig& config) {
  const auto all = text.integers("compress_ratios", INT32_MIN, INT32_MAX);
  const std::int64_t expected = config.layers + config.draft.stages;
  if (std::ssize(all) != expected) {
    text.fail("compress_ratios", "has " + std::to_string(all.size()) + " entries, expected " +
                                     std::to_string(expected) +
                                     ": num_hidden_layers + num_nextn_predict_layers");
    return;
  }
  for (std::int64_t i = 0; i < expected; ++i) {
    const std::int64_t ratio = all[static_cast<std::size_t>(i)];
    const std::string key = "compress_ratios[" + std::to_string(i) + "]";
    if (ratio < 0 || ratio > 2) refuse(text, key, std::to_string(ratio), "ratios 0, 1 and 2");
    if (i < config.layers) {
      config.ratios.push_back(ratio);
    } else if (ratio != 0) {
      text.fail(key, "is " + std::to_string(ratio) + ", expected 0 for a draft stage");
    }
  }
}

/// A list of layers: ascending, in range, and each with compressed rows.
void check_sources(const JsonObject& text, const char* key, const ModelConfig& config,
                   const std::vector<std::int64_t>& layers) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string at = std::string(key) + "[" + std::to_string(i) + "]";
    const std::string found = "is " + std::to_string(layers[i]);
    if (i > 0 && layers[i] <= layers[i - 1]) {
      text.fail(at, found + ", expected more than the entry before it");
    } else if (layers[i] >= config.layers) {
      text.fail(at, found + ", expected less than num_hidden_layers");
    } else if (!config.has_rows(layers[i])) {
      text.fail(at, found + ", a layer of ratio 0; expected a layer with compressed rows");
    }
  }
}

void read_roles(const JsonObject& text, const JsonDocument& document, ModelConfig& config) {
  read_ratios(text, config);
  config.kv_sources = text.integers("kv_source_layer_ids", 0, kLayersMax);
  config.index_sources = text.integers("index_source_layer_ids", 0, kLayersMax);
  if (text.has("index_k_source_layer_ids") &&
      text.integers("index_k_source_layer_ids", 0, kLayersMax) != config.kv_sources) {
    refuse(text, "index_k_source_layer_ids", "another list", "the list of kv_source_layer_ids");
  }
  if (!document.status()) return;
  check_sources(text, "kv_source_layer_ids", config, config.kv_sources);
  check_sources(text, "index_source_layer_ids", config, config.index_sources);
  if (!document.status()) return;
  for (const std::int64_t layer : config.kv_sources) {
    if (!config.is_index_source(layer)) {
      text.fail("index_source_layer_ids", "lacks kv source " + std::to_string(layer) +
                                              ", expected every one of kv_source_layer_ids");
    }
  }
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::int64_t owner = config.kv_owner(layer);
    if (!config.has_rows(layer)) continue;
    if (owner < 0 || config.ratio(owner) != config.ratio(layer)) {
      text.fail("compress_ratios[" + std::to_string(layer) + "]",
                "is " + std::to_string(config.ratio(layer)) +
                    ", expected the ratio of the last kv source up to this layer" +
                    (owner < 0 ? std::string(" (there is none)")
                               : " (layer " + std::to_string(owner) + ")"));
    }
  }
  if (!config.is_index_source(config.candidate_source) ||
      config.kv_owner(config.candidate_source) != config.decoder_start()) {
    text.fail("candidate_source_layer_id",
              "is " + std::to_string(config.candidate_source) +
                  ", expected an index source that reads the rows of the last kv source");
  }
}

void check_tokens(const JsonObject& top, const ModelConfig& config) {
  const auto in_vocab = [&](const char* key, std::int64_t id) {
    if (id >= config.vocab) {
      top.fail(key, "is " + std::to_string(id) +
                        ", expected less than vocab_size = " + std::to_string(config.vocab));
    }
  };
  in_vocab("bos_token_id", config.bos_token);
  in_vocab("pad_token_id", config.pad_token);
  in_vocab("image_token_id", config.image_token.value_or(0));
  in_vocab("text_config.engram_pad_token_id", config.engram.pad_token);
  for (const std::int32_t id : config.eos_tokens)
    in_vocab("eos_token_id", id);
  if (config.eos_tokens.empty()) top.fail("eos_token_id", "is an empty list, expected an id");
}

void check_engram(const JsonObject& text, const ModelConfig& config) {
  const EngramConfig& engram = config.engram;
  if (engram.layers.empty()) return;
  multiple_of(text, "engram_head_dim", engram.head_dim, kQuantBlock, "the quantisation block");
  if (engram.rows.size() != engram.layers.size()) {
    text.fail("engram_num_embeddings", "has " + std::to_string(engram.rows.size()) +
                                           " entries, expected one for each of engram_layer_ids");
  }
  for (std::size_t i = 0; i < engram.layers.size(); ++i) {
    if (engram.layers[i] >= config.layers || (i > 0 && engram.layers[i] <= engram.layers[i - 1])) {
      text.fail("engram_layer_ids", "contains " + std::to_string(engram.layers[i]) +
                                        ", expected ascending layers below num_hidden_layers");
    }
  }
}

Result<ModelConfig> read_config_json(const std::string& path, std::int64_t& engram_vocab) {
  auto document = JsonDocument::read(path, kFileBytesMax);
  if (!document) return document.error();
  ModelConfig config;
  const JsonObject top = document->root();
  read_top(top, config);
  const JsonObject text = top.object("text_config");
  refuse_other_architectures(text);
  config.vocab = text.integer("vocab_size", 1, kVocabMax);
  config.hidden = text.integer("hidden_size", 1, kDimMax);
  config.layers = text.integer("num_hidden_layers", 1, kLayersMax);
  config.context_max = text.integer("max_position_embeddings", 1, kContextMax);
  config.norm_eps = text.number("rms_norm_eps", 0, 1);
  read_attention(text, config);
  read_mlp(text, config);
  read_engram(text, config);
  read_draft(text, config);
  read_vision(top, config);
  engram_vocab = text.integer("engram_vocab_size", 1, kRowsMax, 0);
  if (!document->status()) return document->status().error();
  check_dimensions(text, config);
  read_roles(text, *document, config);
  check_tokens(top, config);
  check_engram(text, config);
  if (!document->status()) return document->status().error();
  return config;
}

Status read_generation(const std::string& path, ModelConfig& config) {
  auto document = JsonDocument::read(path, kFileBytesMax);
  if (!document) return document.error();
  const JsonObject root = document->root();
  config.generation.temperature = root.number("temperature", 0, 100, 1.0);
  config.generation.top_p = root.number("top_p", 0, 1, 1.0);
  config.generation.top_k = root.integer("top_k", 0, kVocabMax, 0);
  if (config.generation.top_p == 0) root.fail("top_p", "is 0, expected more than 0");
  if (!root.boolean("do_sample", true)) config.generation.temperature = 0;
  if (root.has("eos_token_id")) {
    config.eos_tokens.clear();
    for (const std::int64_t id : root.one_or_more("eos_token_id", 0, config.vocab - 1)) {
      config.eos_tokens.push_back(static_cast<std::int32_t>(id));
    }
    if (config.eos_tokens.empty()) root.fail("eos_token_id", "is an empty list, expected an id");
  }
  return document->status();
}

std::int64_t last_up_to(const std::vector<std::int64_t>& ascending, std::int64_t layer) {
  const auto after = std::upper_bound(ascending.begin(), ascending.end(), layer);
  return after == ascending.begin() ? -1 : *std::prev(after);
}

} // namespace

std::int64_t ModelConfig::kv_owner(std::int64_t layer) const {
  return has_rows(layer) ? last_up_to(kv_sources, layer) : -1;
}

std::int64_t ModelConfig::topk_owner(std::int64_t layer) const {
  return has_rows(layer) ? last_up_to(index_sources, layer) : -1;
}

bool ModelConfig::is_kv_source(std::int64_t layer) const {
  return std::binary_search(kv_sources.begin(), kv_sources.end(), layer);
}

bool ModelConfig::is_index_source(std::int64_t layer) const {
  return std::binary_search(index_sources.begin(), index_sources.end(), layer);
}

bool ModelConfig::uses_candidates(std::int64_t layer) const {
  return is_index_source(layer) && layer > candidate_source;
}

std::int64_t ModelConfig::engram_index(std::int64_t layer) const {
  const auto at = std::lower_bound(engram.layers.begin(), engram.layers.end(), layer);
  return at != engram.layers.end() && *at == layer ? at - engram.layers.begin() : -1;
}

std::int64_t ModelConfig::block_multiple() const {
  if (kv_sources.empty()) return 1;
  std::int64_t multiple = candidate_block_size * ratio(candidate_source);
  for (const std::int64_t layer : kv_sources)
    multiple = std::lcm(multiple, ratio(layer));
  return multiple;
}

Result<ModelConfig> read_model_config(const std::string& folder) {
  std::int64_t engram_vocab = 0;
  if (!path_exists(folder)) {
    return Error{ErrorCode::not_found, folder +
                                           ": is not there, expected the folder of a checkpoint; "
                                           "name the folder of a model"};
  }
  auto config = read_config_json(folder + "/config.json", engram_vocab);
  if (!config && config.error().code == ErrorCode::not_found) {
    return Error{ErrorCode::bad_checkpoint, config.error().message};
  }
  if (!config) return config;
  const std::string generation = folder + "/generation_config.json";
  if (path_exists(generation)) {
    if (Status status = read_generation(generation, *config); !status) return status.error();
  }
  if (Status status = complete_engram(folder + "/engram.json", engram_vocab, *config); !status) {
    return status.error();
  }
  return config;
}

} // namespace troupe::engine
