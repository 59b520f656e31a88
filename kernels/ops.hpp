// One documented declaration per op. Every op is a pure function of the values it is given: a row
// of the output depends on its own row of the input only, and each output element is accumulated
// in one fixed order, so that no result depends on what else is computed in the same call.
//
// All ops allocate nothing, never fail, and may be called by many threads on disjoint outputs.
// Scalar and vector paths differ in the last bits; the bounds are in kernels/README.md.

#pragma once

#include "kernels/tensor_view.hpp"

#include <cstdint>

namespace troupe::kernels {

/// out = x wᵀ for the outputs of some panels.
///
///   x    [rows, inputs] f32
///   w    packed [outputs, inputs]
///   out  [rows, outputs] f32, may not alias x; only columns of `panels` are written
///
/// Each output is a float32 sum over blocks of 32 inputs in ascending order. A block is summed from
/// zero over the unscaled codes, where low-bit products leave little to round; then its sum is
/// multiplied by the block's scale, a power of two.
using GemmOp = void (*)(MatrixView<const float> x, const PackedMatrix& w, PanelRange panels,
                        MatrixView<float> out);

/// The same in double, rounded once: for full-precision inputs whose output is quantised or decides
/// a choice.
using GemmWideOp = GemmOp;

/// Attention of one query token over rows that are key and value at once.
///
///   q         [heads, dim] f32
///   window    [window_rows, dim] f32, used first
///   selected  [selected_rows, dim] f32, used after the window
///   sink      [heads] f32: a score without a value, it only enlarges the denominator
///   out       [heads, dim] f32, may not alias q
///   scratch   [heads, dim + window_rows + selected_rows] double
struct AttentionArgs {
  const float* q = nullptr;
  const float* window = nullptr;
  const float* selected = nullptr;
  const float* sink = nullptr;
  float* out = nullptr;
  double* scratch = nullptr;
  std::int64_t window_rows = 0;
  std::int64_t selected_rows = 0;
  std::int64_t heads = 0;
  std::int64_t dim = 0;
  float scale = 1.0F;
};

/// out[h] = Σ_j p_hj row_j with p = softmax over the rows and the sink. Sums run in double: scores
/// go through an exponential, and what comes out is quantised next.
///
/// @pre dim is a multiple of 8; at least one row
using AttentionOp = void (*)(const AttentionArgs& args);

/// Scores of one query token against index keys: out[j] = Σ_h weight[h] relu(q_h · key_j).
///
///   q       [heads, dim] f32, dim a multiple of 8
///   weight  [heads] f32
///   keys    [rows, dim] f32
///   out     [rows] f32
struct IndexScoreArgs {
  const float* q = nullptr;
  const float* weight = nullptr;
  const float* keys = nullptr;
  float* out = nullptr;
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t dim = 0;
};
using IndexScoreOp = void (*)(const IndexScoreArgs& args);

/// out = weight * x / rms(x); in place is fine.
///
///   x, out  [cols] f32
///   weight  [cols] f32
using RmsNormOp = void (*)(const float* x, const float* weight, float eps, std::int64_t cols,
                           float* out);

/// 1 / sqrt(mean(x²) + eps) of a row [cols].
using RmsScaleOp = float (*)(const float* x, float eps, std::int64_t cols);

/// A row after a round trip through e4m3 with a ue8m0 scale per 32 values; in place is fine.
///
/// @pre n is a multiple of 32. Bits equal unpack_fp8(pack_fp8(x)) on every path.
using SimFp8Op = void (*)(const float* x, std::int64_t n, float* out);

/// Turns packed rows into float32; bits equal lowbit.hpp on every path.
using UnpackOp = void (*)(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t n,
                          float* x);

/// Clamped SwiGLU of one row: out = weight * silu(min(gate, limit)) * clamp(up, ±limit).
///
///   gate, up, out  [cols] f32; out may alias either
using SwigluOp = void (*)(const float* gate, const float* up, float limit, float weight,
                          std::int64_t cols, float* out);

/// u = Σ_k mix[k] streams[k], rounded once.
///
///   streams  [hc, cols], mix [hc], u [cols] f32
using CollapseOp = void (*)(const float* streams, const float* mix, std::int64_t hc,
                            std::int64_t cols, float* u);

/// streams[k] = post[k] o + Σ_j mixing[j][k] streams[j], in place, rounded once.
///
///   o [cols], post [hc], mixing [hc (source), hc (target)], streams [hc, cols] f32, hc <= 8
/// Source: DeepSeek-V4, hyper-connections.
using ExpandOp = void (*)(const float* o, const float* post, const float* mixing, std::int64_t hc,
                          std::int64_t cols, float* streams);

/// Projections of a hyper-connection site, divided by the rms of their input, in double.
///
///   x    [rows, inputs] f32: the flattened streams
///   fn   packed f32 [outputs, inputs], outputs <= 96
///   out  [rows, outputs] double
///
/// Double, because the exponentials of a site would enlarge the last bits of a float32 sum until
/// quantisers downstream round the other way.
using SiteProjectOp = void (*)(MatrixView<const float> x, const PackedMatrix& fn, float eps,
                               double* out);

/// The three outputs of hyper-connection sites from their projections.
///
///   raw     [rows, (2 + hc) * hc] double
///   scale   [3], base [(2 + hc) * hc] f32
///   pre     [rows, hc], post [rows, hc], mixing [rows, hc (source), hc (target)] f32
struct HyperArgs {
  const double* raw = nullptr;
  const float* scale = nullptr;
  const float* base = nullptr;
  float* pre = nullptr;
  float* post = nullptr;
  float* mixing = nullptr;
  std::int64_t rows = 0;
  std::int64_t hc = 0;
  std::int64_t iterations = 0;
  double eps = 0.0;
};

/// pre = sigmoid + eps, post = 2 sigmoid, mixing = Sinkhorn-normalised softmax; rounded once.
///
/// @pre hc <= 8
using HyperOp = void (*)(const HyperArgs& args);

/// Rotates the trailing 2 * pairs channels of each row: neighbouring channels form a pair.
///
///   x         [rows, cols] f32, in place
///   cos, sin  [pairs] f32, of one position
using RopeOp = void (*)(MatrixView<float> x, const float* cos, const float* sin,
                        std::int64_t pairs);

/// Engram's gate of one token: streams[k] += gate_k value.
///
///   streams  [hc, cols] f32, in place
///   qk       [hc, cols] f32: product of the two norm weights
///   kv       [hc + 1, cols] f32: a key for each stream, then the value
using EngramOp = void (*)(float* streams, const float* qk, const float* kv, float eps,
                          std::int64_t hc, std::int64_t cols);

} // namespace troupe::kernels
