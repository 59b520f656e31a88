// Attention sublayer: projections, window and chosen rows, output projection in groups.

#include "engine/model/layer.hpp"
#include "kernels/lowbit.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace troupe::engine {

namespace {

const RopeTable& rope_of(const StepState& s, std::int64_t layer) {
  return s.c.has_rows(layer) ? s.compressed : s.plain;
}

/// The quantised rows of a buffer where quantisation is on, else the buffer itself.
const Rows& quantised(const StepState& s, const Rows& plain, const Rows& quantised_rows) {
  return s.quantise ? quantised_rows : plain;
}

void queries(StepState& s, const LayerWeights& w, const RopeTable& rope) {
  const std::int64_t pairs = s.c.rope_dim / 2;
  s.linear(quantised(s, s.x, s.xq).in(), w.wq_a, s.qr.view());
  s.for_ranges(s.token_count, 4 * s.c.q_lora, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t t = begin; t < end; ++t) {
      s.ops.rms_norm(s.qr.row(t), w.q_norm, s.eps, s.c.q_lora, s.qr.row(t));
      if (s.quantise) s.ops.sim_fp8(s.qr.row(t), s.c.q_lora, s.qrq.row(t));
    }
  });
  s.linear(quantised(s, s.qr, s.qrq).in(), w.wq_b, s.q.view());
  s.for_ranges(s.token_count, 4 * s.q.cols(), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t t = begin; t < end; ++t) {
      s.ops.rope({s.q.row(t), s.c.heads, s.c.head_dim, s.c.head_dim}, rope.cos.data() + t * pairs,
                 rope.sin.data() + t * pairs, pairs);
    }
  });
}

/// Stores a float32 window row as the layout wants it.
void store_window_row(const StepState& s, const float* row, std::byte* to) {
  const std::int64_t d = s.c.head_dim;
  if (!s.quantise) {
    std::memcpy(to, row, static_cast<std::size_t>(d) * 4);
    return;
  }
  auto* codes = reinterpret_cast<std::uint8_t*>(to);
  kernels::pack_fp8(row, d, codes, codes + d);
}

void load_window_row(const StepState& s, const std::byte* from, float* row) {
  const std::int64_t d = s.c.head_dim;
  if (!s.quantise) {
    std::memcpy(row, from, static_cast<std::size_t>(d) * 4);
    return;
  }
  const auto* codes = reinterpret_cast<const std::uint8_t*>(from);
  s.ops.unpack_fp8(codes, codes + d, d, row);
}

/// New window rows into the staging area, all visible ones as float32 into s.window.
void window_rows(StepState& s, const LayerWeights& w, std::int64_t layer, const RopeTable& rope) {
  const std::int64_t pairs = s.c.rope_dim / 2;
  s.linear(quantised(s, s.x, s.xq).in(), w.wkv, s.kv.view());
  s.for_ranges(s.token_count, 16 * s.c.head_dim, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t t = begin; t < end; ++t) {
      float* row = s.kv.row(t);
      s.ops.rms_norm(row, w.kv_norm, s.eps, s.c.head_dim, row);
      s.ops.rope({row, 1, s.c.head_dim, s.c.head_dim}, rope.cos.data() + t * pairs,
                 rope.sin.data() + t * pairs, pairs);
      std::byte* stored = s.staged_row(layer, t);
      store_window_row(s, row, stored);
      const SequenceStep& sequence =
          s.sequences[static_cast<std::size_t>(s.owner[static_cast<std::size_t>(t)])];
      load_window_row(
          s, stored,
          s.window.row(sequence.window_begin + sequence.window_past + t - sequence.begin));
    }
  });
  for (const SequenceStep& sequence : s.sequences) {
    const std::int64_t oldest = sequence.first_position - sequence.window_past;
    for (std::int64_t i = 0; i < sequence.window_past; ++i) {
      load_window_row(s, sequence.slot + s.layout.window_row_offset(layer, oldest + i),
                      s.window.row(sequence.window_begin + i));
    }
  }
  if (s.trace != nullptr) {
    for (const SequenceStep& q : s.sequences) {
      s.trace->put(layer, TraceTensor::window_rows, q.first_position, q.count, s.c.head_dim,
                   s.window.row(q.window_begin + q.window_past));
    }
  }
}

/// Attention of one token; its chosen rows are decoded for it alone.
void attend_token(StepState& s, const LayerWeights& w, std::int64_t layer, std::int64_t t,
                  WorkerScratch& scratch) {
  const SequenceStep& sequence =
      s.sequences[static_cast<std::size_t>(s.owner[static_cast<std::size_t>(t)])];
  const std::int64_t local = sequence.window_past + t - sequence.begin;
  const std::int64_t seen = std::min(local + 1, s.c.window);
  kernels::AttentionArgs args;
  args.q = s.q.row(t);
  args.window = s.window.row(sequence.window_begin + local + 1 - seen);
  args.window_rows = seen;
  args.sink = w.sink;
  args.out = s.heads_out.row(t);
  args.heads = s.c.heads;
  args.dim = s.c.head_dim;
  args.scale = 1.0F / std::sqrt(static_cast<float>(s.c.head_dim));
  if (s.c.has_rows(layer)) {
    const std::int64_t count = s.chosen.count[static_cast<std::size_t>(t)];
    float* rows = WorkerScratch::grown(scratch.a, s.chosen.width * s.c.head_dim);
    const KvSourceLayout& source =
        s.layout.sources[static_cast<std::size_t>(s.source_index(s.c.kv_owner(layer)))];
    read_main_rows(s, source, sequence, s.chosen.row(t), 0, count, rows);
    args.selected = rows;
    args.selected_rows = count;
  }
  args.scratch =
      WorkerScratch::grown(scratch.wide, s.c.heads * (s.c.head_dim + s.c.window + s.chosen.width));
  s.ops.attention(args);
}

void project_out(StepState& s, const LayerWeights& w) {
  const std::int64_t row = s.c.heads / s.c.o_groups * s.c.head_dim;
  for (std::int64_t g = 0; g < s.c.o_groups; ++g) {
    s.linear_wide({s.heads_out.data() + g * row, s.token_count, row, s.heads_out.cols()},
                  w.wo_a[static_cast<std::size_t>(g)],
                  {s.z.data() + g * s.c.o_lora, s.token_count, s.c.o_lora, s.z.cols()});
  }
  if (s.quantise) {
    s.for_ranges(s.token_count, 4 * s.z.cols(), [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t t = begin; t < end; ++t) {
        s.ops.sim_fp8(s.z.row(t), s.z.cols(), s.z.row(t));
      }
    });
  }
  s.linear(s.z.in(), w.wo_b, s.y.view());
}

} // namespace

void run_attention(StepState& s, std::int64_t layer) {
  const LayerWeights& w = s.weights.layer(layer);
  const RopeTable& rope = rope_of(s, layer);
  const std::int64_t pairs = s.c.rope_dim / 2;
  queries(s, w, rope);
  s.traced(layer, TraceTensor::q, s.q);
  window_rows(s, w, layer, rope);
  if (w.compressor != nullptr) run_compressor(s, layer);
  if (w.indexer != nullptr) run_indexer(s, layer);
  const std::int64_t cost =
      2 * s.c.heads * s.c.head_dim * (s.c.window + (s.c.has_rows(layer) ? s.c.index_topk : 0));
  s.for_ranges(s.token_count, cost, [&](std::int64_t begin, std::int64_t end, int worker) {
    for (std::int64_t t = begin; t < end; ++t) {
      attend_token(s, w, layer, t, s.scratch(worker));
      // Values carried the rotation of their own positions: turn back by the query's.
      s.ops.rope({s.heads_out.row(t), s.c.heads, s.c.head_dim, s.c.head_dim},
                 rope.cos.data() + t * pairs, rope.minus_sin.data() + t * pairs, pairs);
    }
  });
  project_out(s, w);
}

} // namespace troupe::engine
