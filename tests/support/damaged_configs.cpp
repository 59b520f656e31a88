// Damage to config.json, generation_config.json and engram.json.

#include "tests/support/damaged_checkpoints.hpp"

#include <sys/stat.h>

namespace troupe::test {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Folder = const std::string&;

Damage text_key(const std::string& name, const std::string& key, Json value,
                std::vector<std::string> parts) {
  parts.push_back("config.json: text_config." + key);
  return {name,
          Noticed::config,
          [=](TinyCheckpoint& tiny) { tiny.text()[key] = value; },
          {},
          std::move(parts)};
}

Damage top_key(const std::string& name, const std::string& key, Json value,
               std::vector<std::string> parts) {
  parts.push_back("config.json: " + key);
  return {name,
          Noticed::config,
          [=](TinyCheckpoint& tiny) { tiny.config[key] = value; },
          {},
          std::move(parts)};
}

Damage generation_key(const std::string& name, const std::string& key, Json value,
                      std::vector<std::string> parts) {
  parts.push_back("generation_config.json: " + key);
  return {name,
          Noticed::config,
          [=](TinyCheckpoint& tiny) { tiny.generation[key] = value; },
          {},
          std::move(parts)};
}

Damage engram_key(const std::string& name, const std::string& key, Json value,
                  std::vector<std::string> parts) {
  parts.push_back("engram.json: " + key);
  return {name,
          Noticed::config,
          [=](TinyCheckpoint& tiny) { tiny.engram[key] = value; },
          {},
          std::move(parts)};
}

Damage file(const std::string& name, const std::string& path, const std::string& bytes,
            std::vector<std::string> parts) {
  parts.push_back(path);
  return {name,
          Noticed::config,
          {},
          [=](Folder folder) { write_file(folder + "/" + path, bytes); },
          std::move(parts)};
}

std::vector<Damage> wrong_numbers() {
  return {
      text_key("layers_zero", "num_hidden_layers", 0, {"is 0, expected a whole number from 1"}),
      text_key("layers_negative", "num_hidden_layers", -4, {"is -4, expected a whole number"}),
      text_key("layers_2_31", "num_hidden_layers", 2147483648, {"is 2147483648, expected"}),
      text_key("layers_2_63", "num_hidden_layers", 9223372036854775808ULL,
               {"is 9223372036854775808, expected"}),
      text_key("layers_fraction", "num_hidden_layers", 4.5, {"is 4.5, expected a whole number"}),
      text_key("layers_float", "num_hidden_layers", 4.0, {"is 4.0, expected a whole number"}),
      text_key("layers_text", "num_hidden_layers", "4", {"is \"4\", expected a whole number"}),
      text_key("layers_true", "num_hidden_layers", true, {"is true, expected a whole number"}),
      text_key("layers_list", "num_hidden_layers", {4}, {"is [4], expected a whole number"}),
      text_key("layers_null", "num_hidden_layers", nullptr, {"is missing, expected"}),
      text_key("theta_huge", "rope_theta", 1e308, {"is 1e+308, expected a number from 1"}),
      text_key("theta_negative", "rope_theta", -1.0, {"is -1.0, expected a number"}),
      text_key("epsilon_text", "rms_norm_eps", "NaN", {"is \"NaN\", expected a number"}),
      text_key("vocabulary_huge", "vocab_size", 1LL << 40, {"expected a whole number"}),
      text_key("head_width_odd", "head_dim", 33, {"is 33, expected a multiple of 32"}),
      text_key("rope_wider_than_head", "qk_rope_head_dim", 64,
               {"is 64, expected at most head_dim"}),
      text_key("rope_odd", "qk_rope_head_dim", 15, {"is 15, expected a multiple of 2"}),
      text_key("heads_zero", "num_attention_heads", 0, {"is 0, expected a whole number"}),
      text_key("experts_fewer_than_used", "num_experts_per_tok", 3,
               {"is 3, expected at most n_routed_experts = 2"}),
      text_key("experts_beyond_memory", "n_routed_experts", 65536,
               {"makes 262144 experts", "expected at most"}),
      text_key("streams_too_many", "hc_mult", 9, {"is 9, expected a whole number from 1 to 8"}),
      text_key("ratios_too_few", "compress_ratios", {0, 2, 1},
               {"has 3 entries, expected 4: num_hidden_layers"}),
      text_key("ratio_four", "compress_ratios", {0, 2, 1, 4},
               {"[3]: is 4", "supports ratios 0, 1 and 2 only"}),
      text_key("ratios_contradict", "compress_ratios", {0, 2, 1, 2},
               {"[3]: is 2, expected the ratio of the last kv source"}),
      text_key("ratios_not_a_list", "compress_ratios", 2, {"is 2, expected a list"}),
      text_key("sources_descend", "kv_source_layer_ids", {2, 1}, {"[1]: is 1, expected more than"}),
      text_key("source_beyond_layers", "kv_source_layer_ids", {1, 2, 9}, {"[2]: is 9, expected"}),
      text_key("source_without_rows", "index_source_layer_ids", {0, 1, 2, 3},
               {"[0]: is 0, a layer of ratio 0"}),
      text_key("source_lacks_index", "index_source_layer_ids", {1, 3}, {"lacks kv source 2"}),
      text_key("candidates_elsewhere", "candidate_source_layer_id", 1,
               {"is 1, expected an index source"}),
  };
}

std::vector<Damage> wrong_words() {
  std::vector<Damage> all = {
      {"heads_and_groups",
       Noticed::config,
       [](TinyCheckpoint& tiny) { tiny.text()["o_groups"] = 3; },
       {},
       {"config.json: text_config.num_attention_heads: is 2, expected a multiple of 3"}},
      top_key("other_architecture", "model_type", "llama", {"is 'llama'", "deepseek_v41 only"}),
      top_key("no_text_config", "text_config", nullptr, {"is missing, expected an object"}),
      top_key("text_config_a_list", "text_config", Json::array(), {"is [], expected an object"}),
      top_key("other_quantisation", "quantization_config", {{"quant_method", "awq"}},
              {"quant_method: is 'awq'", "fp8 only"}),
      top_key("other_scale_block", "quantization_config", {{"weight_block_size", {128, 128}}},
              {"weight_block_size", "[32, 32] only"}),
      top_key("end_token_beyond_vocabulary", "eos_token_id", 5000, {"is 5000, expected less than"}),
      top_key("end_tokens_empty", "eos_token_id", Json::array(), {"is an empty list"}),
      top_key("begin_token_negative", "bos_token_id", -1, {"is -1, expected a whole number"}),
      text_key("other_text_model", "model_type", "deepseek_v9_text", {"is 'deepseek_v9_text'"}),
      text_key("other_gate", "scoring_func", "softmax", {"is 'softmax'", "sqrtsoftplus only"}),
      text_key("tied_embeddings", "tie_word_embeddings", true, {"is true", "false only"}),
      text_key("rope_unknown", "rope_scaling", {{"rope_type", "longrope"}},
               {"rope_type: is 'longrope'", "yarn only"}),
      text_key("rope_missing", "rope_scaling", nullptr, {"is missing, expected an object"}),
      text_key("engram_lists_differ", "engram_num_embeddings", {101, 103},
               {"has 2 entries, expected one for each"}),
      text_key("engram_layer_beyond", "engram_layer_ids", {9}, {"contains 9, expected ascending"}),
      generation_key("temperature_negative", "temperature", -1, {"is -1, expected a number"}),
      generation_key("temperature_text", "temperature", "hot", {"is \"hot\", expected a number"}),
      generation_key("top_p_zero", "top_p", 0, {"is 0, expected more than 0"}),
      generation_key("top_k_fraction", "top_k", 1.5, {"is 1.5, expected a whole number"}),
      generation_key("generation_end_beyond", "eos_token_id", {1, 4096}, {"is 4096, expected"}),
      engram_key("engram_other_layers", "layers", {2}, {"another list than engram_layer_ids"}),
      engram_key("engram_primes_shape", "primes", {{101, 103}},
                 {"another shape, expected 1 lists"}),
      engram_key("engram_primes_sum", "primes", {{103}}, {"add up to 103, expected"}),
      engram_key("engram_multiplier_huge", "multipliers", {{3, 9223372036854775807}},
                 {"is 9223372036854775807, expected"}),
      engram_key("engram_map_short", "token_map", {1, 2, 3},
                 {"has 3 entries, expected vocab_size"}),
      engram_key("engram_map_beyond", "token_map", {4096}, {"is 4096, expected"}),
  };
  return all;
}

std::vector<Damage> wrong_files() {
  std::string deep;
  for (int i = 0; i < 100'000; ++i)
    deep += '[';
  return {
      file("config_empty", "config.json", "", {"is no valid JSON, expected one object"}),
      file("config_not_json", "config.json", "hello", {":1: byte 1: is no valid JSON"}),
      file("config_cut", "config.json",
           "{\n \"model_type\": \"deepseek_v41\",\n \"text_config\": {",
           {"config.json:3: byte", "is no valid JSON"}),
      file("config_a_list", "config.json", "[1]", {"is [1], expected an object"}),
      file("config_nan", "config.json", "{\"model_type\": NaN}", {":1: byte", "is no valid JSON"}),
      file("config_infinite", "config.json", "{\"a\": 1e999}", {"is no valid JSON"}),
      file("config_bad_utf8", "config.json", "{\"a\": \"\xFF\"}", {"is no valid JSON"}),
      file("config_nul", "config.json", std::string("{\"a\": \0}", 8), {"is no valid JSON"}),
      file("config_deep_open", "config.json", deep, {"nested deeper than 64 levels"}),
      file("config_deep_key", "config.json", "{\"x\":" + deep + std::string(100'000, ']') + "}",
           {"x: is nested deeper than 64 levels"}),
      file("config_key_twice", "config.json", "{\"model_type\": \"a\", \"model_type\": \"b\"}",
           {"model_type: stands twice", "expected once"}),
      file("config_deep_key_twice", "config.json",
           "{\"text_config\": {\"head_dim\": 32, \"head_dim\": 64}}",
           {"text_config.head_dim: stands twice"}),
      file("config_then_nul", "config.json", std::string("{}\0 more", 8),
           {":1: byte 3: is no valid JSON"}),
      file("config_no_keys", "config.json", "{}", {"model_type: is missing"}),
      file("generation_not_json", "generation_config.json", "temperature = 1",
           {":1: byte 2: is no valid JSON"}),
      file("engram_not_json", "engram.json", "{", {":1: byte", "is no valid JSON"}),
  };
}

/// Files that are missing, or of another kind than a small text.
std::vector<Damage> wrong_places() {
  std::vector<Damage> all;
  all.push_back({"config_missing",
                 Noticed::config,
                 {},
                 [](Folder folder) { fs::remove(folder + "/config.json"); },
                 {"config.json: cannot be opened", "fetch it again"}});
  all.push_back({"engram_missing",
                 Noticed::inventory,
                 {},
                 [](Folder folder) { fs::remove(folder + "/engram.json"); },
                 {"engram.json: is missing, and multipliers cannot be derived from config.json",
                  "put an engram.json"}});
  all.push_back({"config_long_key_twice",
                 Noticed::config,
                 {},
                 [](Folder folder) {
                   const std::string key = '"' + std::string(10'000, 'k') + "\\n\":1";
                   write_file(folder + "/config.json", "{" + key + "," + key + "}");
                 },
                 {"config.json: kkk", "... (10001 bytes): stands twice"}});
  all.push_back({"config_a_folder",
                 Noticed::config,
                 {},
                 [](Folder folder) {
                   fs::remove(folder + "/config.json");
                   fs::create_directory(folder + "/config.json");
                 },
                 {"config.json: is a folder, expected a regular file"}});
  all.push_back({"config_a_pipe",
                 Noticed::config,
                 {},
                 [](Folder folder) {
                   fs::remove(folder + "/config.json");
                   ::mkfifo((folder + "/config.json").c_str(), 0600);
                 },
                 {"config.json: is a pipe, socket or device"}});
  all.push_back({"generation_a_pipe",
                 Noticed::config,
                 {},
                 [](Folder folder) {
                   fs::remove(folder + "/generation_config.json");
                   ::mkfifo((folder + "/generation_config.json").c_str(), 0600);
                 },
                 {"generation_config.json: is a pipe, socket or device"}});
  all.push_back({"config_of_a_gigabyte",
                 Noticed::config,
                 {},
                 [](Folder folder) { fs::resize_file(folder + "/config.json", 1'000'000'000); },
                 {"config.json: has 1000000000 bytes, expected at most 64000000"}});
  return all;
}

} // namespace

std::vector<Damage> damaged_configs() {
  std::vector<Damage> all;
  for (const auto& kinds : {wrong_numbers(), wrong_words(), wrong_files(), wrong_places()})
    all.insert(all.end(), kinds.begin(), kinds.end());
  return all;
}

} // namespace troupe::test
