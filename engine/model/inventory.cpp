// The published tensor list of V4.1, block by block.

#include "engine/model/inventory.hpp"

#include <algorithm>
#include <array>

namespace troupe::engine {

namespace {

constexpr std::int64_t kBlock = 32;

std::int64_t blocks_of(std::int64_t n) { return (n + kBlock - 1) / kBlock; }

/// Collects the parameters of one checkpoint.
class Lister {
public:
  explicit Lister(const ModelConfig& config) : c_(config) {}

  std::vector<Parameter> list() {
    plain("embed.weight", {c_.vocab, c_.hidden});
    matrix("head.weight", {c_.vocab, c_.hidden});
    plain("norm.weight", {c_.hidden});
    for (std::int64_t i = 0; i < c_.layers; ++i) {
      const std::string prefix = "layers." + std::to_string(i) + ".";
      block(prefix, c_.experts);
      sources(prefix + "attn.", i);
      if (c_.engram_index(i) >= 0) engram(prefix, c_.engram_index(i));
    }
    if (c_.draft.stages > 0) draft();
    if (c_.vision && c_.vision->hidden > 0) vision(*c_.vision);
    return std::move(parameters_);
  }

private:
  using Shape = std::vector<std::int64_t>;

  void plain(std::string name, Shape shape) {
    parameters_.push_back({std::move(name), Encoding::plain, std::move(shape)});
  }
  void matrix(std::string name, Shape shape) {
    parameters_.push_back({std::move(name), Encoding::matrix, std::move(shape)});
  }

  void block(const std::string& p, std::int64_t experts) {
    const std::int64_t mixes = (2 + c_.hc_streams) * c_.hc_streams;
    for (const char* site : {"attn", "ffn"}) {
      plain(p + site + "_norm.weight", {c_.hidden});
      matrix(p + "hc_" + site + "_fn", {mixes, c_.hc_streams * c_.hidden});
      plain(p + "hc_" + site + "_base", {mixes});
      plain(p + "hc_" + site + "_scale", {3});
    }
    const std::string attn = p + "attn.";
    const std::int64_t out = c_.o_groups * c_.o_lora;
    matrix(attn + "wq_a.weight", {c_.q_lora, c_.hidden});
    matrix(attn + "wq_b.weight", {c_.heads * c_.head_dim, c_.q_lora});
    matrix(attn + "wkv.weight", {c_.head_dim, c_.hidden});
    matrix(attn + "wo_a.weight", {out, c_.heads / c_.o_groups * c_.head_dim});
    matrix(attn + "wo_b.weight", {c_.hidden, out});
    plain(attn + "q_norm.weight", {c_.q_lora});
    plain(attn + "kv_norm.weight", {c_.head_dim});
    plain(attn + "attn_sink", {c_.heads});
    const std::string ffn = p + "ffn.";
    matrix(ffn + "gate.weight", {experts, c_.hidden});
    plain(ffn + "gate.bias", {experts});
    plain(ffn + "gate.bias_vl", {experts});
    for (std::int64_t e = 0; e < experts; ++e) {
      expert(ffn + "experts." + std::to_string(e) + ".");
    }
    expert(ffn + "shared_experts.");
  }

  void expert(const std::string& p) {
    matrix(p + "w1.weight", {c_.moe_intermediate, c_.hidden});
    matrix(p + "w2.weight", {c_.hidden, c_.moe_intermediate});
    matrix(p + "w3.weight", {c_.moe_intermediate, c_.hidden});
  }

  void sources(const std::string& attn, std::int64_t layer) {
    if (c_.is_index_source(layer)) {
      matrix(attn + "indexer.wq_b.weight", {c_.index_heads * c_.index_head_dim, c_.q_lora});
      matrix(attn + "indexer.weights_proj.weight", {c_.index_heads, c_.hidden});
    }
    if (!c_.is_kv_source(layer)) return;
    matrix(attn + "indexer.wk.weight", {c_.index_head_dim, c_.head_dim});
    plain(attn + "indexer.k_norm.weight", {c_.index_head_dim});
    matrix(attn + "compressor.wkv.weight", {c_.head_dim, c_.hidden});
    plain(attn + "compressor.norm.weight", {c_.head_dim});
    if (c_.ratio(layer) > 1) matrix(attn + "compressor.wgate.weight", {c_.head_dim, c_.hidden});
  }

  void engram(const std::string& p, std::int64_t at) {
    const EngramConfig& e = c_.engram;
    parameters_.push_back({p + "engram.embed.weight",
                           Encoding::table,
                           {e.rows[static_cast<std::size_t>(at)], e.head_dim}});
    matrix(p + "engram.wkv.weight", {(c_.hc_streams + 1) * c_.hidden, e.ids() * e.head_dim});
    plain(p + "engram.q_weight", {c_.hc_streams, c_.hidden});
    plain(p + "engram.k_weight", {c_.hc_streams, c_.hidden});
  }

  void draft() {
    for (std::int64_t s = 0; s < c_.draft.stages; ++s) {
      block("mtp." + std::to_string(s) + ".", c_.draft.experts);
    }
    const std::string last = "mtp." + std::to_string(c_.draft.stages - 1) + ".";
    const auto targets = std::ssize(c_.draft.target_layers);
    matrix("mtp.0.main_proj.weight", {c_.hidden, targets * c_.hidden});
    plain("mtp.0.main_norm.weight", {c_.hidden});
    plain(last + "norm.weight", {c_.hidden});
    matrix(last + "markov_head.embed.weight", {c_.vocab, c_.draft.markov_rank});
    matrix(last + "markov_head.head.weight", {c_.vocab, c_.draft.markov_rank});
    matrix(last + "confidence_head.proj.weight", {1, c_.hidden + c_.draft.markov_rank});
  }

  void vision(const VisionConfig& v) {
    const std::int64_t n = v.hidden;
    plain("vision.patch_embed.proj.weight", {n, 3 * v.patch_size * v.patch_size});
    plain("vision.patch_embed.proj.bias", {n});
    for (std::int64_t b = 0; b < v.layers; ++b) {
      const std::string p = "vision.blocks." + std::to_string(b) + ".";
      plain(p + "norm1.weight", {n});
      plain(p + "norm2.weight", {n});
      plain(p + "attn.wqkv.weight", {3 * n, n});
      plain(p + "attn.wqkv.bias", {3 * n});
      plain(p + "attn.wo.weight", {n, n});
      plain(p + "attn.wo.bias", {n});
      plain(p + "mlp.w1.weight", {2 * v.intermediate, n});
      plain(p + "mlp.w2.weight", {n, v.intermediate});
    }
    plain("vision.norm.weight", {n});
    plain("aligner.w1.weight", {c_.hidden, n * v.downsample * v.downsample});
    plain("aligner.w1.bias", {c_.hidden});
    plain("aligner.w2.weight", {c_.hidden, c_.hidden});
    plain("aligner.w2.bias", {c_.hidden});
    for (const char* name : {"image_start", "image_end", "image_newline"}) {
      plain(name, {c_.hidden});
    }
  }

  const ModelConfig& c_;
  std::vector<Parameter> parameters_;
};

std::string scale_name(const std::string& weight) {
  constexpr std::string_view kSuffix = "weight";
  return weight.ends_with(kSuffix) ? weight.substr(0, weight.size() - kSuffix.size()) + "scale"
                                   : weight + ".scale";
}

/// Compares stored tensors with parameters and remembers which were asked for.
class Comparison {
public:
  explicit Comparison(const Checkpoint& checkpoint)
      : checkpoint_(checkpoint), asked_(checkpoint.tensors().size()) {}

  void check(const Parameter& parameter) {
    const TensorInfo* tensor = ask(parameter.name);
    if (tensor == nullptr) return;
    const Encoding encoding = parameter.encoding;
    std::vector<std::int64_t> shape = parameter.shape;
    std::vector<std::int64_t> scale;
    bool fits = tensor->dtype == DType::bf16 || tensor->dtype == DType::f32;
    if (encoding == Encoding::table) fits = false;
    if (tensor->dtype == DType::f8_e4m3 && encoding != Encoding::plain) {
      fits = true;
      scale = {encoding == Encoding::table ? shape[0] : blocks_of(shape[0]), blocks_of(shape[1])};
    }
    if (tensor->dtype == DType::i8 && encoding == Encoding::matrix) {
      fits = true;
      scale = {shape[0], blocks_of(shape[1])};
      shape[1] /= 2;
    }
    compare(*tensor, fits, encoding_names(encoding), shape);
    if (scale.empty()) return;
    const TensorInfo* scales = ask(scale_name(parameter.name));
    if (scales != nullptr) compare(*scales, scales->dtype == DType::f8_e8m0, "F8_E8M0", scale);
  }

  InventoryReport report() {
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      if (!asked_[i]) report_.unknown.push_back(checkpoint_.tensors()[i].name);
    }
    return std::move(report_);
  }

private:
  static const char* encoding_names(Encoding encoding) {
    switch (encoding) {
    case Encoding::plain:
      return "BF16 or F32";
    case Encoding::matrix:
      return "F8_E4M3, I8 (two FP4 codes), BF16 or F32";
    case Encoding::table:
      return "F8_E4M3";
    }
    return "";
  }

  const TensorInfo* ask(const std::string& name) {
    const TensorInfo* tensor = checkpoint_.info(name);
    if (tensor != nullptr) {
      asked_[static_cast<std::size_t>(tensor - checkpoint_.tensors().data())] = true;
    } else if (tensor_kind_used(tensor_kind(name))) {
      report_.missing.push_back(name);
    } else {
      report_.missing_unused.push_back(name);
    }
    return tensor;
  }

  void compare(const TensorInfo& tensor, bool dtype_fits, const char* dtypes,
               const std::vector<std::int64_t>& shape) {
    if (dtype_fits && tensor.shape == shape) return;
    report_.wrong.push_back("tensor " + in_quotes(tensor.name) + ": is " +
                            std::string(dtype_name(tensor.dtype)) + " " + shape_text(tensor.shape) +
                            ", expected " + dtypes + " " + shape_text(shape));
    report_.wrong_in.push_back(checkpoint_.shards()[static_cast<std::size_t>(tensor.shard)].path);
  }

  const Checkpoint& checkpoint_;
  std::vector<bool> asked_;
  InventoryReport report_;
};

constexpr std::array<std::string_view, kTensorKinds> kKindNames{
    "embedding",      "attention", "indexer", "hyper", "router", "experts",
    "shared_experts", "engram",    "norm",    "draft", "vision", "unknown"};

/// What follows "layers.N."; empty when the name is no tensor of a layer.
std::string_view layer_part(std::string_view name) {
  constexpr std::string_view kPrefix = "layers.";
  if (!name.starts_with(kPrefix)) return {};
  name.remove_prefix(kPrefix.size());
  const std::size_t dot = name.find_first_not_of("0123456789");
  if (dot == 0 || dot == std::string_view::npos || name[dot] != '.') return {};
  return name.substr(dot + 1);
}

} // namespace

std::string_view tensor_kind_name(TensorKind kind) noexcept {
  return kKindNames[static_cast<std::size_t>(kind)];
}

bool tensor_kind_used(TensorKind kind) noexcept {
  return kind != TensorKind::draft && kind != TensorKind::vision && kind != TensorKind::unknown;
}

TensorKind tensor_kind(std::string_view name) noexcept {
  struct Row {
    std::string_view prefix;
    TensorKind kind;
  };
  constexpr Row kGlobal[] = {{"embed.", TensorKind::embedding}, {"head.", TensorKind::embedding},
                             {"norm.", TensorKind::norm},       {"mtp.", TensorKind::draft},
                             {"vision.", TensorKind::vision},   {"aligner.", TensorKind::vision},
                             {"image_", TensorKind::vision}};
  constexpr Row kLayer[] = {{"attn.indexer.", TensorKind::indexer},
                            {"attn.", TensorKind::attention},
                            {"attn_norm.", TensorKind::norm},
                            {"ffn_norm.", TensorKind::norm},
                            {"hc_", TensorKind::hyper},
                            {"ffn.gate.", TensorKind::router},
                            {"ffn.experts.", TensorKind::experts},
                            {"ffn.shared_experts.", TensorKind::shared_experts},
                            {"engram.", TensorKind::engram}};
  for (const Row& row : kGlobal) {
    if (name.starts_with(row.prefix)) return row.kind;
  }
  const std::string_view part = layer_part(name);
  for (const Row& row : kLayer) {
    if (part.starts_with(row.prefix)) return row.kind;
  }
  return TensorKind::unknown;
}

std::vector<Parameter> expected_parameters(const ModelConfig& config) {
  return Lister(config).list();
}

InventoryReport check_inventory(const ModelConfig& config, const Checkpoint& checkpoint) {
  Comparison comparison(checkpoint);
  for (const Parameter& parameter : expected_parameters(config))
    comparison.check(parameter);
  return comparison.report();
}

} // namespace troupe::engine
