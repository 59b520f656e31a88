// A hook into the forward: sees intermediate tensors, may replace the input of a layer.
//
// Costs one null check where it is absent. Meant for comparing with golden files.

#pragma once

#include <cstdint>

namespace troupe::engine {

/// What a trace gets, with the columns of a row. Rows are tokens of the step unless said otherwise.
enum class TraceTensor : std::uint8_t {
  layer_entry,      ///< [hc * hidden] streams after Engram, before the block.
  attn_in,          ///< [hidden] collapsed input before the norm.
  q,                ///< [heads * head_dim] after rope.
  window_rows,      ///< [head_dim] as stored.
  attn_out,         ///< [hidden]
  moe_out,          ///< [hidden]
  streams,          ///< [hc * hidden] after the block.
  mix,              ///< [hc] handed to the next block.
  router_weights,   ///< [experts_per_token]
  router_scale,     ///< [1] largest biased score.
  compressed_rows,  ///< [head_dim]; a row is a group of ratio tokens.
  index_keys,       ///< [index_head_dim]; a row is a group of ratio tokens.
  topk_scale,       ///< [1] largest magnitude of a visible score, 0 when none is visible.
  candidate_margin, ///< [1] gap of the block scores at the cut, +inf where forced.
  candidate_scale,  ///< [1] largest magnitude of a block score.
  logits,           ///< [vocab]
};

/// Integers, as TraceTensor.
enum class TraceIds : std::uint8_t {
  router,     ///< [experts_per_token] best first.
  topk,       ///< [index_topk] chosen rows ascending, -1 padded.
  candidates, ///< [candidate_blocks] kept blocks ascending, -1 padded.
};

class Trace {
public:
  virtual ~Trace() = default;

  /// Before layer `layer`: streams [rows, hc * hidden] and mix [rows, hc] may be replaced.
  virtual void layer_input(std::int64_t layer, std::int64_t first_position, std::int64_t rows,
                           float* streams, float* mix) = 0;

  /// `first` is the position (or group) of row 0 within its sequence; sequences come one by one.
  virtual void put(std::int64_t layer, TraceTensor what, std::int64_t first, std::int64_t rows,
                   std::int64_t cols, const float* data) = 0;
  virtual void put_ids(std::int64_t layer, TraceIds what, std::int64_t first, std::int64_t rows,
                       std::int64_t cols, const std::int32_t* data) = 0;
};

} // namespace troupe::engine
