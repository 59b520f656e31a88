#include "tests/support/released_checkpoint.hpp"

#include "engine/model/config.hpp"
#include "engine/model/inventory.hpp"
#include "tests/support/checkpoint_files.hpp"

#include <sstream>
#include <stdexcept>

namespace troupe::test {

namespace {

using engine::DType;
using engine::Parameter;
using engine::TensorInfo;

constexpr std::size_t kShards = 48;

/// The stored tensors of one parameter as published: dtype by name.
std::vector<TensorInfo> published(const Parameter& parameter) {
  const std::string& name = parameter.name;
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  const auto ceil32 = [](std::int64_t n) { return (n + 31) / 32; };
  const auto& shape = parameter.shape;
  const std::string scale = name.substr(0, name.size() - 6) + "scale";
  if (has("ffn.experts.")) {
    return {{name, DType::i8, {shape[0], shape[1] / 2}},
            {scale, DType::f8_e8m0, {shape[0], ceil32(shape[1])}}};
  }
  if (has("engram.embed")) {
    return {{name, DType::f8_e4m3, shape}, {scale, DType::f8_e8m0, {shape[0], shape[1] / 32}}};
  }
  const bool fp8 = has("shared_experts") || has("attn.wq_") || has("attn.wo_") ||
                   has("attn.wkv.weight") || has("indexer.wq_b") || has("engram.wkv") ||
                   has("main_proj");
  if (fp8 && !has("vision.")) {
    return {{name, DType::f8_e4m3, shape},
            {scale, DType::f8_e8m0, {ceil32(shape[0]), ceil32(shape[1])}}};
  }
  const bool f32 = has("hc_") || has("attn_sink") || has("gate.bias");
  return {{name, f32 ? DType::f32 : DType::bf16, shape}};
}

/// Writes header and length of one shard; its data is a hole.
void write_sparse_shard(const std::string& path, std::span<const TensorInfo> tensors) {
  std::ostringstream header;
  std::int64_t offset = 0;
  header << "{";
  for (const TensorInfo& tensor : tensors) {
    std::int64_t bytes = engine::dtype_bytes(tensor.dtype);
    for (const std::int64_t n : tensor.shape)
      bytes *= n;
    header << (offset == 0 ? "" : ",") << '"' << tensor.name << "\":{\"dtype\":\""
           << engine::dtype_name(tensor.dtype)
           << "\",\"shape\":" << engine::shape_text(tensor.shape) << ",\"data_offsets\":[" << offset
           << "," << offset + bytes << "]}";
    offset += bytes;
  }
  header << "}";
  const std::string text = safetensors_bytes(header.str(), "");
  write_file(path, text);
  std::filesystem::resize_file(path, text.size() + static_cast<std::uintmax_t>(offset));
}

} // namespace

void write_released_inventory(const std::string& folder) {
  write_file(folder + "/config.json",
             read_file(TROUPE_SOURCE_DIR "/tests/vectors/config_v4.1_flash.json"));
  const auto config = engine::read_model_config(folder);
  if (!config.ok()) throw std::runtime_error(config.error().message);
  std::vector<TensorInfo> tensors;
  for (const Parameter& parameter : engine::expected_parameters(*config)) {
    for (TensorInfo& stored : published(parameter))
      tensors.push_back(std::move(stored));
  }
  std::vector<std::pair<std::string, std::string>> weight_map;
  const std::size_t per_shard = (tensors.size() + kShards - 1) / kShards;
  for (std::size_t begin = 0, n = 1; begin < tensors.size(); begin += per_shard, ++n) {
    const std::string file = "model-" + std::to_string(n) + ".safetensors";
    const auto part =
        std::span(tensors).subspan(begin, std::min(per_shard, tensors.size() - begin));
    write_sparse_shard(folder + "/" + file, part);
    for (const TensorInfo& tensor : part)
      weight_map.emplace_back(tensor.name, file);
  }
  write_file(folder + "/model.safetensors.index.json", index_json(weight_map));
}

} // namespace troupe::test
