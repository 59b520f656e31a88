// Everything one step works on: who the tokens belong to, and the buffers between the ops.
//
// Buffers are sized for the largest step once and used again. New state of a sequence is staged
// here and written to its slot only when the whole step has succeeded.

#pragma once

#include "engine/kv/layout.hpp"
#include "engine/model/trace.hpp"
#include "engine/model/weights.hpp"
#include "engine/thread_pool.hpp"
#include "kernels/op_table.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::engine {

/// One sequence of a step. Token t of the step is its position first_position + t - begin.
struct SequenceStep {
  std::byte* slot = nullptr;
  std::vector<std::byte*> blocks;
  std::int64_t first_position = 0;
  std::int64_t begin = 0; ///< First token in the step.
  std::int64_t count = 0;
  std::int64_t window_begin = 0; ///< First row in StepState::window: the oldest row still seen.
  std::int64_t window_past = 0;  ///< Rows of earlier steps at its begin.
  bool wants_logits = false;

  std::int64_t end_position() const noexcept { return first_position + count; }
};

/// Chosen rows of each token, ascending.
struct IndexSets {
  std::int64_t width = 0;          ///< Most entries of a token.
  std::vector<std::int32_t> ids;   ///< [tokens, width], -1 past the end
  std::vector<std::int32_t> count; ///< [tokens]

  const std::int32_t* row(std::int64_t t) const { return ids.data() + t * width; }
  std::int32_t* row(std::int64_t t) { return ids.data() + t * width; }
};

/// cos and sin of every token's position, [tokens, pairs]; `minus_sin` turns back.
struct RopeTable {
  std::vector<float> cos;
  std::vector<float> sin;
  std::vector<float> minus_sin;
};

/// Buffers that one thread uses within one task.
struct WorkerScratch {
  std::vector<float> a;
  std::vector<float> b;
  std::vector<float> c;
  std::vector<double> wide;
  std::vector<std::uint64_t> keys;

  template <class T>
  static T* grown(std::vector<T>& buffer, std::int64_t size) {
    if (static_cast<std::int64_t>(buffer.size()) < size)
      buffer.resize(static_cast<std::size_t>(size));
    return buffer.data();
  }
};

/// A row of floats [tokens, cols] that only grows.
class Rows {
public:
  void shape(std::int64_t rows, std::int64_t cols) {
    rows_ = rows;
    cols_ = cols;
    const auto size = static_cast<std::size_t>(rows * cols);
    if (data_.size() < size) data_.resize(size);
  }
  float* row(std::int64_t i) { return data_.data() + i * cols_; }
  const float* row(std::int64_t i) const { return data_.data() + i * cols_; }
  float* data() { return data_.data(); }
  std::int64_t cols() const noexcept { return cols_; }
  kernels::MatrixView<float> view() { return {data_.data(), rows_, cols_, cols_}; }
  kernels::MatrixView<const float> in() const { return {data_.data(), rows_, cols_, cols_}; }

private:
  std::vector<float> data_;
  std::int64_t rows_ = 0;
  std::int64_t cols_ = 0;
};

/// The working set of a forward. One per engine; not shared between threads' callers.
class StepState {
public:
  StepState(const Weights& weights, const KvLayout& layout, bool quantise,
            const kernels::OpTable& table, ThreadPool& threads);

  /// Sizes everything for the sequences and tokens at hand.
  void begin(std::vector<SequenceStep> steps, std::span<const std::int32_t> ids);

  /// Calls f(begin, end, worker) for ranges that cover [0, count). `cost` is about one item's work
  /// in multiply-adds; little work stays on the calling thread.
  template <class F>
  void for_ranges(std::int64_t count, std::int64_t cost, F&& f) {
    const std::int64_t pieces = pieces_for(count, cost);
    if (pieces <= 1) {
      if (count > 0) f(std::int64_t{0}, count, 0);
      return;
    }
    pool.run(pieces, [&](std::int64_t i, int worker) {
      f(count * i / pieces, count * (i + 1) / pieces, worker);
    });
  }

  /// out = in wᵀ, cut by rows and panels over the threads.
  void linear(kernels::MatrixView<const float> in, const kernels::PackedMatrix& w,
              kernels::MatrixView<float> out) {
    product(ops.gemm, in, w, out);
  }
  /// The same with double sums, for inputs that were never quantised.
  void linear_wide(kernels::MatrixView<const float> in, const kernels::PackedMatrix& w,
                   kernels::MatrixView<float> out) {
    product(ops.gemm_wide, in, w, out);
  }

  WorkerScratch& scratch(int worker) { return scratch_[static_cast<std::size_t>(worker)]; }
  std::byte* staged_row(std::int64_t layer, std::int64_t token) {
    return staged.data() + (layer * token_count + token) * layout.window_row_bytes;
  }
  std::int64_t source_index(std::int64_t layer) const;

  /// Calls trace->put for each sequence's part of token rows.
  void traced(std::int64_t layer, TraceTensor what, const Rows& rows);
  void traced_ids(std::int64_t layer, TraceIds what, std::int64_t cols, const std::int32_t* ids);

  const Weights& weights;
  const ModelConfig& c;
  const KvLayout& layout;
  const kernels::OpTable& ops;
  ThreadPool& pool;
  const bool quantise; ///< Pass activations and rows through the checkpoint's formats.
  const float eps;
  Trace* trace = nullptr;

  std::vector<SequenceStep> sequences;
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> position; ///< [tokens]
  std::vector<std::int32_t> owner;    ///< [tokens] index into sequences
  std::int64_t token_count = 0;

  RopeTable plain;      ///< Window-only layers.
  RopeTable compressed; ///< All others.

  Rows streams, mix, post, mixing; ///< Hyper-connections.
  std::vector<double> site_raw;    ///< [tokens, (2 + hc) * hc]
  Rows u, x, xq; ///< Collapsed; normed; normed and quantised (a view of x when off).
  Rows qr, qrq, q, kv, heads_out, z, y;
  Rows window; ///< Window rows of all sequences as float32.
  Rows index_q, index_weight;
  Rows raw_kv, raw_gate, latent, key; ///< Compression.
  IndexSets chosen;                   ///< Of the newest index source.
  IndexSets candidates;               ///< Of the candidate source.
  Rows router, router_weight, gathered, expert_out;
  std::vector<std::int32_t> router_ids;    ///< [tokens, experts_per_token] best first
  std::vector<std::int32_t> expert_slots;  ///< [tokens * experts_per_token] tokens by expert
  std::vector<std::int32_t> expert_begin;  ///< [experts + 1] into expert_slots
  std::vector<std::int32_t> slot_of;       ///< [tokens, experts_per_token] into expert_out
  std::vector<std::int32_t> grams;         ///< [tokens, ngram_max] compressed ids, newest first
  std::vector<std::uint8_t> is_image;      ///< [tokens]
  Rows memory, memory_kv;                  ///< Engram
  Rows logits;                             ///< [rows asked for, vocab]
  std::vector<std::int32_t> expert_counts; ///< [layers, experts]

  std::vector<std::byte> staged;          ///< [layers, tokens] new window rows
  std::vector<float> staged_pending;      ///< [sequences, sources, 2 * head_dim]
  std::vector<std::int32_t> staged_grams; ///< [sequences, ngram_max - 1]

private:
  void product(kernels::GemmOp gemm, kernels::MatrixView<const float> in,
               const kernels::PackedMatrix& w, kernels::MatrixView<float> out);
  std::int64_t pieces_for(std::int64_t count, std::int64_t cost) const;
  void fill_rope(const RopeFrequencies& frequencies, RopeTable& table) const;

  std::vector<WorkerScratch> scratch_;
};

/// cos and sin of one position. The angle is the float32 product of position and frequency.
void rope_angles(std::int64_t position, const RopeFrequencies& frequencies, float* cos, float* sin);

/// Length held by a slot.
std::int64_t slot_length(const std::byte* slot);

} // namespace troupe::engine
