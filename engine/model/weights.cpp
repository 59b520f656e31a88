#include "engine/model/weights.hpp"

#include "engine/model/identity.hpp"
#include "engine/model/safetensors.hpp"
#include "kernels/lowbit.hpp"
#include "kernels/pack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace troupe::engine {

namespace {

using kernels::PackedMatrix;
using kernels::StoredMatrix;
using kernels::WeightFormat;
using Shape = std::vector<std::int64_t>;

constexpr std::int64_t kBlock = kernels::kScaleBlock;
constexpr std::array kPlainTypes = {DType::bf16, DType::f32};
constexpr std::array kMatrixTypes = {DType::bf16, DType::f32, DType::f8_e4m3, DType::i8};
constexpr std::array kSiteTypes = {DType::f32};
constexpr std::array kTableTypes = {DType::f8_e4m3};
constexpr std::array kScaleTypes = {DType::f8_e8m0};

// The largest ue8m0 codes under which every value of a format is a float32: the largest values are
// 1.75 * 2^8 (e4m3) and 1.5 * 2^2 (e2m1).
constexpr std::uint8_t kScaleBias = 127;
constexpr std::uint8_t kFp8ScaleMax = kScaleBias + 127 - 8;
constexpr std::uint8_t kFp4ScaleMax = kScaleBias + 127 - 2;

const std::uint8_t* as_bytes(std::span<const std::byte> bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

std::int64_t ceil_blocks(std::int64_t n) { return (n + kBlock - 1) / kBlock; }

/// First value of `bytes` that is no finite number, or -1. Low-bit codes have a NaN each and no
/// infinity; packed FP4 and integers have neither.
std::int64_t first_not_finite(DType dtype, std::span<const std::byte> bytes) {
  const auto first_of = [bytes](auto zero, auto mask, auto exponent) -> std::int64_t {
    using Word = decltype(zero);
    const std::size_t count = bytes.size() / sizeof(Word);
    const auto is_bad = [&](std::size_t i) {
      Word word = zero;
      std::memcpy(&word, bytes.data() + i * sizeof(Word), sizeof word);
      return (word & mask) == exponent;
    };
    bool any = false; // Without an exit the compiler makes this loop a vector loop.
    for (std::size_t i = 0; i < count; ++i)
      any |= is_bad(i);
    std::size_t at = 0;
    while (any && !is_bad(at))
      ++at;
    return any ? static_cast<std::int64_t>(at) : -1;
  };
  switch (dtype) {
  case DType::f8_e4m3:
    return first_of(std::uint8_t{0}, 0x7F, 0x7F);
  case DType::f8_e8m0:
    return first_of(std::uint8_t{0}, 0xFF, 0xFF);
  case DType::bf16:
    return first_of(std::uint16_t{0}, 0x7F80, 0x7F80);
  case DType::f32:
    return first_of(std::uint32_t{0}, 0x7F800000U, 0x7F800000U);
  default:
    return -1;
  }
}

std::string scale_name(std::string_view weight) {
  constexpr std::string_view kSuffix = "weight";
  return std::string(weight.substr(0, weight.size() - kSuffix.size())) + "scale";
}

} // namespace

void AlignedFree::operator()(std::byte* bytes) const noexcept { std::free(bytes); }

/// Reads tensors one after the other and keeps the first error; after it every call is a no-op.
class WeightsLoader {
public:
  WeightsLoader(Weights& weights, const Checkpoint& checkpoint)
      : weights_(weights), c_(weights.config_), checkpoint_(checkpoint) {}

  Status load_all();

private:
  std::byte* allocate(std::int64_t bytes);
  std::span<const std::byte> require(const std::string& name, std::span<const DType> types,
                                     const Shape& shape, DType* found = nullptr);
  void refuse_not_finite(const std::string& name, DType dtype, std::span<const std::byte> bytes);
  std::span<const std::byte> scales(const std::string& name, const Shape& shape,
                                    std::uint8_t highest);
  StoredMatrix stored(const std::string& name, std::int64_t outputs, std::int64_t inputs);
  PackedMatrix matrix(const std::string& name, std::int64_t outputs, std::int64_t inputs);
  std::vector<PackedMatrix> grouped(const std::string& name, std::int64_t groups,
                                    std::int64_t outputs, std::int64_t inputs);
  PackedMatrix packed(const StoredMatrix& from, std::int64_t first, std::int64_t count);
  const float* vector(const std::string& name, const Shape& shape);
  ExpertWeights expert(const std::string& prefix);
  SiteWeights site(const std::string& prefix);
  void embeddings();
  void attention(const std::string& prefix, std::int64_t index, LayerWeights& layer);
  void experts(const std::string& prefix, LayerWeights& layer);
  void engram(const std::string& prefix, std::int64_t at, LayerWeights& layer);
  Status check_sizes() const;
  void fail(ErrorCode code, std::string message) {
    if (status_.ok()) status_ = Status(code, std::move(message));
  }

  Weights& weights_;
  const ModelConfig& c_;
  const Checkpoint& checkpoint_;
  Status status_;
  std::int64_t used_ = 0;
};

std::byte* WeightsLoader::allocate(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>((bytes + 63) / 64 * 64);
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(64, size));
  if (memory == nullptr) {
    fail(ErrorCode::no_room,
         fmt::format("no memory for {} bytes of weights after {} bytes", bytes, weights_.bytes_));
    return nullptr;
  }
  weights_.bytes_ += static_cast<std::int64_t>(size);
  weights_.memory_.emplace_back(memory);
  return memory;
}

/// Bytes of a tensor, or an empty span after an error.
std::span<const std::byte> WeightsLoader::require(const std::string& name,
                                                  std::span<const DType> types, const Shape& shape,
                                                  DType* found) {
  if (!status_.ok()) return {};
  Result<TensorView> view = checkpoint_.require(name, types, shape);
  if (!view.ok()) {
    status_ = view.status();
    return {};
  }
  ++used_;
  if (found != nullptr) *found = view->dtype;
  refuse_not_finite(name, view->dtype, view->bytes);
  return status_.ok() ? view->bytes : std::span<const std::byte>{};
}

/// NaN and infinity never occur in a sound checkpoint and would spread to every answer.
void WeightsLoader::refuse_not_finite(const std::string& name, DType dtype,
                                      std::span<const std::byte> bytes) {
  const std::int64_t at = first_not_finite(dtype, bytes);
  if (at < 0) return;
  const TensorInfo* info = checkpoint_.info(name);
  fail(ErrorCode::bad_checkpoint,
       fmt::format("{}: tensor '{}': element {} of {} {} is NaN or infinite, expected finite "
                   "numbers; the file is damaged, fetch it again",
                   checkpoint_.shards()[static_cast<std::size_t>(info->shard)].path, name, at,
                   dtype_name(dtype), shape_text(info->shape)));
}

/// Scales up to the code `highest`: above it a weight can be infinite.
std::span<const std::byte> WeightsLoader::scales(const std::string& name, const Shape& shape,
                                                 std::uint8_t highest) {
  const std::span<const std::byte> bytes = require(name, kScaleTypes, shape);
  const auto is_bad = [highest](std::byte code) { return static_cast<int>(code) > highest; };
  bool any = false; // As above, a vector loop.
  for (const std::byte code : bytes)
    any |= is_bad(code);
  if (!any) return bytes;
  const auto at = std::find_if(bytes.begin(), bytes.end(), is_bad);
  const TensorInfo* info = checkpoint_.info(name);
  fail(ErrorCode::bad_checkpoint,
       fmt::format("{}: tensor '{}': element {} of {} {} is 2^{}, expected at most 2^{}, so that "
                   "weights are finite numbers; the file is damaged, fetch it again",
                   checkpoint_.shards()[static_cast<std::size_t>(info->shard)].path, name,
                   at - bytes.begin(), dtype_name(info->dtype), shape_text(info->shape),
                   static_cast<int>(*at) - kScaleBias, highest - kScaleBias));
  return {};
}

StoredMatrix WeightsLoader::stored(const std::string& name, std::int64_t outputs,
                                   std::int64_t inputs) {
  StoredMatrix out{.outputs = outputs, .inputs = inputs};
  const TensorInfo* info = checkpoint_.info(name);
  const bool fp4 = info != nullptr && info->dtype == DType::i8;
  DType dtype{};
  out.values = require(name, kMatrixTypes, {outputs, fp4 ? inputs / 2 : inputs}, &dtype).data();
  if (!status_.ok()) return out;
  switch (dtype) {
  case DType::f32:
    out.format = WeightFormat::f32;
    return out;
  case DType::bf16:
    out.format = WeightFormat::bf16;
    return out;
  case DType::i8:
    out.format = WeightFormat::e2m1;
    break;
  default:
    out.format = WeightFormat::e4m3;
    break;
  }
  out.scale_rows = fp4 ? 1 : kBlock;
  const std::int64_t scale_rows = fp4 ? outputs : ceil_blocks(outputs);
  out.scales = as_bytes(scales(scale_name(name), {scale_rows, ceil_blocks(inputs)},
                               fp4 ? kFp4ScaleMax : kFp8ScaleMax));
  return out;
}

PackedMatrix WeightsLoader::packed(const StoredMatrix& from, std::int64_t first,
                                   std::int64_t count) {
  if (!status_.ok()) return {};
  const std::int64_t scale_bytes = kernels::packed_scale_bytes(from.format, count, from.inputs);
  std::byte* values = allocate(kernels::packed_value_bytes(from.format, count, from.inputs));
  std::byte* scales = scale_bytes > 0 ? allocate(scale_bytes) : nullptr;
  if (!status_.ok()) return {};
  return kernels::pack(from, first, count, values, reinterpret_cast<std::uint8_t*>(scales));
}

PackedMatrix WeightsLoader::matrix(const std::string& name, std::int64_t outputs,
                                   std::int64_t inputs) {
  const StoredMatrix from = stored(name, outputs, inputs);
  return packed(from, 0, outputs);
}

std::vector<PackedMatrix> WeightsLoader::grouped(const std::string& name, std::int64_t groups,
                                                 std::int64_t outputs, std::int64_t inputs) {
  const StoredMatrix from = stored(name, groups * outputs, inputs);
  std::vector<PackedMatrix> out;
  for (std::int64_t g = 0; g < groups; ++g)
    out.push_back(packed(from, g * outputs, outputs));
  return out;
}

const float* WeightsLoader::vector(const std::string& name, const Shape& shape) {
  DType dtype{};
  const std::span<const std::byte> bytes = require(name, kPlainTypes, shape, &dtype);
  if (!status_.ok()) return nullptr;
  std::int64_t count = 1;
  for (const std::int64_t n : shape)
    count *= n;
  auto* out = reinterpret_cast<float*>(allocate(count * 4));
  if (out == nullptr) return nullptr;
  if (dtype == DType::f32) {
    std::memcpy(out, bytes.data(), bytes.size());
    return out;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    out[i] = kernels::decode_bf16(bits);
  }
  return out;
}

ExpertWeights WeightsLoader::expert(const std::string& prefix) {
  ExpertWeights out;
  out.w1 = matrix(prefix + "w1.weight", c_.moe_intermediate, c_.hidden);
  out.w3 = matrix(prefix + "w3.weight", c_.moe_intermediate, c_.hidden);
  out.w2 = matrix(prefix + "w2.weight", c_.hidden, c_.moe_intermediate);
  return out;
}

SiteWeights WeightsLoader::site(const std::string& prefix) {
  const std::int64_t width = (2 + c_.hc_streams) * c_.hc_streams;
  SiteWeights out;
  const std::int64_t inputs = c_.hc_streams * c_.hidden;
  StoredMatrix fn{.outputs = width, .inputs = inputs};
  fn.values = require(prefix + "fn", kSiteTypes, {width, inputs}).data();
  out.fn = packed(fn, 0, width);
  out.base = vector(prefix + "base", {width});
  out.scale = vector(prefix + "scale", {3});
  return out;
}

void WeightsLoader::attention(const std::string& prefix, std::int64_t index, LayerWeights& layer) {
  const std::string attn = prefix + "attn.";
  const std::int64_t row = c_.heads / c_.o_groups * c_.head_dim;
  layer.wq_a = matrix(attn + "wq_a.weight", c_.q_lora, c_.hidden);
  layer.wq_b = matrix(attn + "wq_b.weight", c_.heads * c_.head_dim, c_.q_lora);
  layer.wkv = matrix(attn + "wkv.weight", c_.head_dim, c_.hidden);
  layer.wo_a = grouped(attn + "wo_a.weight", c_.o_groups, c_.o_lora, row);
  layer.wo_b = matrix(attn + "wo_b.weight", c_.hidden, c_.o_groups * c_.o_lora);
  layer.q_norm = vector(attn + "q_norm.weight", {c_.q_lora});
  layer.kv_norm = vector(attn + "kv_norm.weight", {c_.head_dim});
  layer.sink = vector(attn + "attn_sink", {c_.heads});
  layer.frequencies = c_.has_rows(index) ? &weights_.compressed_ : &weights_.plain_;
  if (c_.is_index_source(index)) {
    layer.indexer = std::make_unique<IndexerWeights>();
    layer.indexer->wq_b =
        matrix(attn + "indexer.wq_b.weight", c_.index_heads * c_.index_head_dim, c_.q_lora);
    layer.indexer->weights_proj =
        matrix(attn + "indexer.weights_proj.weight", c_.index_heads, c_.hidden);
  }
  if (c_.is_kv_source(index)) {
    layer.compressor = std::make_unique<CompressorWeights>();
    CompressorWeights& out = *layer.compressor;
    out.wkv = matrix(attn + "compressor.wkv.weight", c_.head_dim, c_.hidden);
    if (c_.ratio(index) > 1) {
      out.wgate = matrix(attn + "compressor.wgate.weight", c_.head_dim, c_.hidden);
    }
    out.norm = vector(attn + "compressor.norm.weight", {c_.head_dim});
    out.wk = matrix(attn + "indexer.wk.weight", c_.index_head_dim, c_.head_dim);
    out.k_norm = vector(attn + "indexer.k_norm.weight", {c_.index_head_dim});
  }
}

void WeightsLoader::experts(const std::string& prefix, LayerWeights& layer) {
  const std::string ffn = prefix + "ffn.";
  layer.gate = matrix(ffn + "gate.weight", c_.experts, c_.hidden);
  layer.gate_bias = vector(ffn + "gate.bias", {c_.experts});
  layer.gate_bias_vl = vector(ffn + "gate.bias_vl", {c_.experts});
  for (std::int64_t e = 0; e < c_.experts && status_.ok(); ++e) {
    layer.experts.push_back(expert(fmt::format("{}experts.{}.", ffn, e)));
  }
  layer.shared = expert(ffn + "shared_experts.");
}

void WeightsLoader::engram(const std::string& prefix, std::int64_t at, LayerWeights& layer) {
  const EngramConfig& e = c_.engram;
  const std::int64_t rows = e.rows[static_cast<std::size_t>(at)];
  layer.engram = std::make_unique<EngramWeights>();
  EngramWeights& out = *layer.engram;
  const auto copied = [this](std::span<const std::byte> bytes) -> const std::uint8_t* {
    std::byte* memory = status_.ok() ? allocate(static_cast<std::int64_t>(bytes.size())) : nullptr;
    if (memory == nullptr) return nullptr;
    std::memcpy(memory, bytes.data(), bytes.size());
    return reinterpret_cast<const std::uint8_t*>(memory);
  };
  out.codes = copied(require(prefix + "engram.embed.weight", kTableTypes, {rows, e.head_dim}));
  out.scales =
      copied(scales(prefix + "engram.embed.scale", {rows, e.head_dim / kBlock}, kFp8ScaleMax));
  out.wkv =
      matrix(prefix + "engram.wkv.weight", (c_.hc_streams + 1) * c_.hidden, e.ids() * e.head_dim);
  const float* q = vector(prefix + "engram.q_weight", {c_.hc_streams, c_.hidden});
  const float* k = vector(prefix + "engram.k_weight", {c_.hc_streams, c_.hidden});
  if (!status_.ok()) return;
  const std::int64_t count = c_.hc_streams * c_.hidden;
  auto* qk = reinterpret_cast<float*>(allocate(count * 4));
  for (std::int64_t i = 0; qk != nullptr && i < count; ++i)
    qk[i] = q[i] * k[i];
  out.qk = qk;
}

void WeightsLoader::embeddings() {
  DType dtype{};
  const std::span<const std::byte> bytes =
      require("embed.weight", kPlainTypes, {c_.vocab, c_.hidden}, &dtype);
  std::byte* rows = status_.ok() ? allocate(static_cast<std::int64_t>(bytes.size())) : nullptr;
  if (rows != nullptr) {
    std::memcpy(rows, bytes.data(), bytes.size());
    if (dtype == DType::bf16) {
      weights_.embed_bf16_ = reinterpret_cast<const std::uint16_t*>(rows);
    } else {
      weights_.embed_f32_ = reinterpret_cast<const float*>(rows);
    }
  }
  weights_.norm_ = vector("norm.weight", {c_.hidden});
  weights_.head_ = matrix("head.weight", c_.vocab, c_.hidden);
}

/// Widths that the block quantisers and vector ops divide by.
Status WeightsLoader::check_sizes() const {
  const std::array<std::pair<const char*, std::int64_t>, 6> quantised = {{
      {"hidden_size", c_.hidden},
      {"q_lora_rank", c_.q_lora},
      {"head_dim", c_.head_dim},
      {"o_groups * o_lora_rank", c_.o_groups * c_.o_lora},
      {"moe_intermediate_size", c_.moe_intermediate},
      {"engram_head_dim", c_.engram.layers.empty() ? kBlock : c_.engram.head_dim},
  }};
  for (const auto& [name, value] : quantised) {
    if (value % kBlock != 0) {
      return {ErrorCode::unsupported,
              fmt::format("config.json: {}: is {}, expected a multiple of {} (the quantisation "
                          "block); take a checkpoint of the supported kind",
                          name, value, kBlock)};
    }
  }
  if (c_.hc_streams > 8) {
    return {
        ErrorCode::unsupported,
        fmt::format(
            "config.json: hc_mult: is {}, expected at most 8; take a checkpoint of the supported "
            "kind",
            c_.hc_streams)};
  }
  if (!c_.engram.incomplete.empty()) {
    return {ErrorCode::unsupported, c_.engram.incomplete};
  }
  for (const TensorInfo& tensor : checkpoint_.tensors()) {
    if (tensor.name.find(".hc_") != std::string::npos && tensor.name.ends_with("norm.weight")) {
      return {ErrorCode::unsupported,
              fmt::format(
                  "{}: tensor '{}': is a norm weight of hyper-connections, expected none; take a "
                  "checkpoint without them",
                  checkpoint_.shards()[static_cast<std::size_t>(tensor.shard)].path, tensor.name)};
    }
  }
  return {};
}

Status WeightsLoader::load_all() {
  if (Status sizes = check_sizes(); !sizes.ok()) return sizes;
  weights_.plain_ = rope_frequencies(c_.rope_dim, c_.rope_theta, nullptr);
  weights_.compressed_ = rope_frequencies(c_.rope_dim, c_.compress_rope_theta, &c_.yarn);
  embeddings();
  weights_.layers_.resize(static_cast<std::size_t>(c_.layers));
  for (std::int64_t i = 0; i < c_.layers && status_.ok(); ++i) {
    const std::string prefix = fmt::format("layers.{}.", i);
    LayerWeights& layer = weights_.layers_[static_cast<std::size_t>(i)];
    layer.attn_norm = vector(prefix + "attn_norm.weight", {c_.hidden});
    layer.ffn_norm = vector(prefix + "ffn_norm.weight", {c_.hidden});
    layer.attn_site = site(prefix + "hc_attn_");
    layer.ffn_site = site(prefix + "hc_ffn_");
    attention(prefix, i, layer);
    experts(prefix, layer);
    if (c_.engram_index(i) >= 0) engram(prefix, c_.engram_index(i), layer);
  }
  weights_.unused_tensors_ = static_cast<std::int64_t>(checkpoint_.tensors().size()) - used_;
  return status_;
}

Result<std::shared_ptr<const Weights>> Weights::load(const std::string& folder) {
  Result<ModelConfig> config = read_model_config(folder);
  if (!config.ok()) return config.error();
  Result<Checkpoint> checkpoint = Checkpoint::open(folder);
  if (!checkpoint.ok()) return checkpoint.error();
  Result<std::string> identity = checkpoint_identity(folder, *checkpoint);
  if (!identity.ok()) return identity.error();

  std::shared_ptr<Weights> weights(new Weights());
  weights->config_ = std::move(*config);
  weights->identity_ = std::move(*identity);
  if (Status status = WeightsLoader(*weights, *checkpoint).load_all(); !status.ok()) {
    return status.error();
  }
  return std::shared_ptr<const Weights>(std::move(weights));
}

void Weights::embed(std::int32_t token, float* out) const noexcept {
  const std::int64_t hidden = config_.hidden;
  if (embed_f32_ != nullptr) {
    std::memcpy(out, embed_f32_ + token * hidden, static_cast<std::size_t>(hidden) * 4);
    return;
  }
  const std::uint16_t* row = embed_bf16_ + token * hidden;
  for (std::int64_t i = 0; i < hidden; ++i)
    out[i] = kernels::decode_bf16(row[i]);
}

Result<std::shared_ptr<const Weights>> load_weights(const EngineOptions& options) {
  return Weights::load(options.model_path);
}

} // namespace troupe::engine
