// The weights of one checkpoint, packed for the kernels: every matrix keeps its stored format.
//
// Immutable after loading and shared by all engines of a process. Nothing points into the
// checkpoint's files.

#pragma once

#include "engine/engine.hpp"
#include "engine/model/config.hpp"
#include "kernels/tensor_view.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe::engine {

/// Angular frequencies of one kind of layer, [rope_dim / 2] float32.
using RopeFrequencies = std::vector<float>;

/// Clamped SwiGLU of one expert.
struct ExpertWeights {
  kernels::PackedMatrix w1; ///< [moe_intermediate, hidden]
  kernels::PackedMatrix w3; ///< [moe_intermediate, hidden]
  kernels::PackedMatrix w2; ///< [hidden, moe_intermediate]
};

/// One hyper-connection site.
struct SiteWeights {
  kernels::PackedMatrix fn; ///< [(2 + hc) * hc, hc * hidden]
  const float* base = nullptr;
  const float* scale = nullptr;
};

/// Only in KV sources.
struct CompressorWeights {
  kernels::PackedMatrix wkv;     ///< [head_dim, hidden]
  kernels::PackedMatrix wgate;   ///< [head_dim, hidden]; ratio 2 only
  const float* norm = nullptr;   ///< [head_dim]
  kernels::PackedMatrix wk;      ///< [index_head_dim, head_dim]
  const float* k_norm = nullptr; ///< [index_head_dim]
};

/// Only in index sources.
struct IndexerWeights {
  kernels::PackedMatrix wq_b;         ///< [index_heads * index_head_dim, q_lora]
  kernels::PackedMatrix weights_proj; ///< [index_heads, hidden]
};

/// Only in Engram layers.
struct EngramWeights {
  const std::uint8_t* codes = nullptr;  ///< [rows, head_dim] e4m3
  const std::uint8_t* scales = nullptr; ///< [rows, head_dim / 32] ue8m0
  kernels::PackedMatrix wkv;            ///< [(hc + 1) * hidden, ids * head_dim]
  const float* qk = nullptr;            ///< [hc, hidden] product of the two norm weights
};

struct LayerWeights {
  const float* attn_norm = nullptr; ///< [hidden]
  const float* ffn_norm = nullptr;  ///< [hidden]
  SiteWeights attn_site;
  SiteWeights ffn_site;

  kernels::PackedMatrix wq_a;              ///< [q_lora, hidden]
  kernels::PackedMatrix wq_b;              ///< [heads * head_dim, q_lora]
  kernels::PackedMatrix wkv;               ///< [head_dim, hidden]
  std::vector<kernels::PackedMatrix> wo_a; ///< [o_groups] of [o_lora, heads / o_groups * head_dim]
  kernels::PackedMatrix wo_b;              ///< [hidden, o_groups * o_lora]
  const float* q_norm = nullptr;           ///< [q_lora]
  const float* kv_norm = nullptr;          ///< [head_dim]
  const float* sink = nullptr;             ///< [heads]
  const RopeFrequencies* frequencies = nullptr;

  std::unique_ptr<CompressorWeights> compressor; ///< KV sources.
  std::unique_ptr<IndexerWeights> indexer;       ///< Index sources.
  std::unique_ptr<EngramWeights> engram;         ///< Engram layers.

  kernels::PackedMatrix gate;          ///< [experts, hidden]
  const float* gate_bias = nullptr;    ///< [experts]
  const float* gate_bias_vl = nullptr; ///< [experts], for image tokens
  std::vector<ExpertWeights> experts;  ///< [experts]
  ExpertWeights shared;
};

/// 64-byte aligned memory of one tensor.
struct AlignedFree {
  void operator()(std::byte* bytes) const noexcept;
};
using AlignedBytes = std::unique_ptr<std::byte, AlignedFree>;

class Weights {
public:
  /// Reads a checkpoint folder; every shape and dtype is checked against its config.
  ///
  ///   Errors   of the reader and the config; bad_checkpoint names file, tensor, found and expected
  static Result<std::shared_ptr<const Weights>> load(const std::string& folder);

  const ModelConfig& config() const noexcept { return config_; }
  const std::string& identity() const noexcept { return identity_; }
  const LayerWeights& layer(std::int64_t i) const { return layers_[static_cast<std::size_t>(i)]; }

  /// Row of the token embedding as float32, into out [hidden].
  void embed(std::int32_t token, float* out) const noexcept;

  const float* norm() const noexcept { return norm_; }                 ///< [hidden]
  const kernels::PackedMatrix& head() const noexcept { return head_; } ///< [vocab, hidden]
  const RopeFrequencies& plain_frequencies() const noexcept { return plain_; }
  const RopeFrequencies& compressed_frequencies() const noexcept { return compressed_; }

  std::int64_t bytes() const noexcept { return bytes_; } ///< Held in memory.
  std::int64_t unused_tensors() const noexcept { return unused_tensors_; }

private:
  friend class WeightsLoader;
  Weights() = default;

  ModelConfig config_;
  std::string identity_;
  std::vector<LayerWeights> layers_;
  const std::uint16_t* embed_bf16_ = nullptr; ///< One of the two is set.
  const float* embed_f32_ = nullptr;
  const float* norm_ = nullptr;
  kernels::PackedMatrix head_;
  RopeFrequencies plain_;
  RopeFrequencies compressed_;
  std::vector<AlignedBytes> memory_;
  std::int64_t bytes_ = 0;
  std::int64_t unused_tensors_ = 0;
};

/// Frequencies θ^(-2i / dims), blended towards θ^(-2i / dims) / factor by YaRN where `yarn` is
/// given; computed in double, rounded once. Pure. Source: YaRN, Peng et al., ICLR 2024,
/// section 3.2, without its attention factor.
RopeFrequencies rope_frequencies(std::int64_t dims, double theta, const YarnConfig* yarn);

} // namespace troupe::engine
