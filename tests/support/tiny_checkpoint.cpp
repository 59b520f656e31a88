#include "tests/support/tiny_checkpoint.hpp"

#include "engine/model/config.hpp"
#include "engine/model/inventory.hpp"

#include <cstring>
#include <stdexcept>

namespace troupe::test {

namespace {

using Json = nlohmann::ordered_json;

const std::string kNano = TROUPE_SOURCE_DIR "/examples/models/nano-v4.1/";

constexpr std::int64_t kBlock = 32;
constexpr char kScaleOne = 127; ///< ue8m0
constexpr char kCode = 0x28;    ///< A small number in e4m3, two in e2m1.

std::int64_t blocks_of(std::int64_t n) { return (n + kBlock - 1) / kBlock; }

Json tiny_config() {
  Json config = Json::parse(read_file(kNano + "config.json"));
  const Json changes = {{"hidden_size", 32},
                        {"num_hidden_layers", 4},
                        {"num_attention_heads", 2},
                        {"head_dim", 32},
                        {"qk_rope_head_dim", 16},
                        {"q_lora_rank", 32},
                        {"o_groups", 1},
                        {"o_lora_rank", 32},
                        {"sliding_window", 16},
                        {"max_position_embeddings", 1024},
                        {"compress_ratios", {0, 2, 1, 1}},
                        {"kv_source_layer_ids", {1, 2}},
                        {"index_source_layer_ids", {1, 2, 3}},
                        {"index_n_heads", 1},
                        {"index_head_dim", 32},
                        {"index_topk", 8},
                        {"candidate_source_layer_id", 2},
                        {"candidate_topk_blocks", 4},
                        {"moe_intermediate_size", 32},
                        {"n_routed_experts", 2},
                        {"num_experts_per_tok", 1},
                        {"hc_mult", 2},
                        {"engram_layer_ids", {1}},
                        {"engram_num_embeddings", {101}},
                        {"engram_max_ngram_size", 2},
                        {"engram_vocab_size", 101},
                        {"engram_n_heads", 1},
                        {"engram_compressed_vocab_size", 4096},
                        {"num_nextn_predict_layers", 0}};
  config["text_config"].update(changes);
  return config;
}

TensorSpec filled(const std::string& name, const char* dtype, std::vector<std::int64_t> shape,
                  char byte) {
  TensorSpec tensor = zeros(name, dtype, std::move(shape));
  std::memset(tensor.bytes.data(), byte, tensor.bytes.size());
  return tensor;
}

/// A parameter as the published checkpoints store it.
std::vector<TensorSpec> stored(const engine::Parameter& parameter) {
  const std::string& name = parameter.name;
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  const auto& shape = parameter.shape;
  if (parameter.encoding == engine::Encoding::plain || has("hc_") || has("gate.") || has("head")) {
    const bool is_f32 = has("hc_") || has("attn_sink") || has("gate.bias");
    return {zeros(name, is_f32 ? "F32" : "BF16", shape)};
  }
  const std::string scale = name.substr(0, name.size() - 6) + "scale";
  if (has("ffn.experts.")) {
    return {filled(name, "I8", {shape[0], shape[1] / 2}, kCode),
            filled(scale, "F8_E8M0", {shape[0], blocks_of(shape[1])}, kScaleOne)};
  }
  const bool is_table = parameter.encoding == engine::Encoding::table;
  const std::int64_t rows = is_table ? shape[0] : blocks_of(shape[0]);
  return {filled(name, "F8_E4M3", shape, kCode),
          filled(scale, "F8_E8M0", {rows, blocks_of(shape[1])}, kScaleOne)};
}

} // namespace

TinyCheckpoint::TinyCheckpoint()
    : config(tiny_config()), generation(Json::parse(read_file(kNano + "generation_config.json"))),
      engram({{"layers", {1}}, {"multipliers", {{3, 5}}}, {"primes", {{101}}}}) {
  for (const char* name : {"tokenizer.json", "encoding.json"})
    files[name] = read_file(kNano + name);
  const ScratchFolder folder;
  write_file(folder / "config.json", config.dump(1));
  write_file(folder / "engram.json", engram.dump(1));
  const auto parsed = engine::read_model_config(folder.path());
  if (!parsed.ok()) throw std::runtime_error(parsed.error().message);
  for (const engine::Parameter& parameter : engine::expected_parameters(*parsed)) {
    for (TensorSpec& tensor : stored(parameter)) {
      const std::string name = tensor.name;
      tensors.emplace(name, std::move(tensor));
    }
  }
}

void TinyCheckpoint::write(const std::string& folder) const {
  std::vector<TensorSpec> shards[2];
  std::vector<std::pair<std::string, std::string>> placed;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t shard = name < "layers.2." ? 0 : 1;
    shards[shard].push_back(tensor);
    placed.emplace_back(name, kTinyShards[shard]);
  }
  for (const std::size_t shard : {0U, 1U})
    write_file(folder + "/" + kTinyShards[shard], safetensors_bytes(shards[shard]));
  write_file(folder + "/" + kTinyIndex, index_json(placed));
  write_file(folder + "/config.json", config.dump(1));
  write_file(folder + "/generation_config.json", generation.dump(1));
  write_file(folder + "/engram.json", engram.dump(1));
  for (const auto& [name, text] : files)
    write_file(folder + "/" + name, text);
}

} // namespace troupe::test
