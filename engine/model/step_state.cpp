#include "engine/model/step_state.hpp"

#include "schedulers/core/check.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace troupe::engine {

namespace {

constexpr std::int64_t kSerialCost = 200'000; ///< Multiply-adds below which threads cost more.
constexpr std::int64_t kRowTile = 96;         ///< Rows of one GEMM task.

} // namespace

StepState::StepState(const Weights& w, const KvLayout& bytes, bool quantise_values,
                     const kernels::OpTable& table, ThreadPool& threads)
    : weights(w), c(w.config()), layout(bytes), ops(table), pool(threads),
      quantise(quantise_values), eps(static_cast<float>(w.config().norm_eps)) {
  scratch_.resize(static_cast<std::size_t>(threads.threads()));
}

std::int64_t StepState::pieces_for(std::int64_t count, std::int64_t cost) const {
  if (pool.threads() == 1 || count * cost < kSerialCost) return 1;
  return std::min<std::int64_t>(count, 4 * pool.threads());
}

void StepState::product(kernels::GemmOp gemm, kernels::MatrixView<const float> in,
                        const kernels::PackedMatrix& w, kernels::MatrixView<float> out) {
  if (in.rows == 0) return;
  const std::int64_t panels = w.panels();
  if (pool.threads() == 1 || in.rows * w.inputs * w.outputs < kSerialCost) {
    gemm(in, w, {0, panels}, out);
    return;
  }
  const std::int64_t row_parts = (in.rows + kRowTile - 1) / kRowTile;
  const std::int64_t wanted = 4 * pool.threads();
  const std::int64_t panel_parts =
      std::clamp<std::int64_t>((wanted + row_parts - 1) / row_parts, 1, panels);
  pool.run(row_parts * panel_parts, [&](std::int64_t i, int) {
    const std::int64_t r = i / panel_parts;
    const std::int64_t p = i % panel_parts;
    const std::int64_t first = r * kRowTile;
    const std::int64_t rows = std::min(kRowTile, in.rows - first);
    gemm({in.row(first), rows, in.cols, in.stride}, w,
         {panels * p / panel_parts, panels * (p + 1) / panel_parts},
         {out.row(first), rows, out.cols, out.stride});
  });
}

void rope_angles(std::int64_t position, const RopeFrequencies& frequencies, float* cos,
                 float* sin) {
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float angle = static_cast<float>(position) * frequencies[i];
    cos[i] = static_cast<float>(std::cos(static_cast<double>(angle)));
    sin[i] = static_cast<float>(std::sin(static_cast<double>(angle)));
  }
}

void StepState::fill_rope(const RopeFrequencies& frequencies, RopeTable& table) const {
  const std::size_t pairs = frequencies.size();
  const std::size_t size = static_cast<std::size_t>(token_count) * pairs;
  table.cos.resize(size);
  table.sin.resize(size);
  table.minus_sin.resize(size);
  for (std::int64_t t = 0; t < token_count; ++t) {
    const std::size_t at = static_cast<std::size_t>(t) * pairs;
    rope_angles(position[static_cast<std::size_t>(t)], frequencies, table.cos.data() + at,
                table.sin.data() + at);
  }
  for (std::size_t i = 0; i < size; ++i)
    table.minus_sin[i] = -table.sin[i];
}

std::int64_t slot_length(const std::byte* slot) {
  std::int64_t length = 0;
  std::memcpy(&length, slot, sizeof(length));
  return length;
}

void StepState::begin(std::vector<SequenceStep> steps, std::span<const std::int32_t> ids) {
  sequences = std::move(steps);
  tokens.assign(ids.begin(), ids.end());
  token_count = static_cast<std::int64_t>(ids.size());
  const std::size_t n = ids.size();
  position.resize(n);
  owner.resize(n);
  is_image.resize(n);
  std::int64_t window_rows = 0;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    SequenceStep& sequence = sequences[s];
    sequence.window_past = std::min(sequence.first_position, c.window - 1);
    sequence.window_begin = window_rows;
    window_rows += sequence.window_past + sequence.count;
    for (std::int64_t i = 0; i < sequence.count; ++i) {
      const auto t = static_cast<std::size_t>(sequence.begin + i);
      position[t] = sequence.first_position + i;
      owner[t] = static_cast<std::int32_t>(s);
      is_image[t] = c.image_token && tokens[t] == *c.image_token ? 1 : 0;
    }
  }
  fill_rope(weights.plain_frequencies(), plain);
  fill_rope(weights.compressed_frequencies(), compressed);

  const std::int64_t hc = c.hc_streams;
  const std::int64_t rows = token_count;
  streams.shape(rows, hc * c.hidden);
  mix.shape(rows, hc);
  post.shape(rows, hc);
  mixing.shape(rows, hc * hc);
  site_raw.resize(static_cast<std::size_t>(rows * (2 + hc) * hc));
  for (Rows* buffer : {&u, &x, &xq, &y})
    buffer->shape(rows, c.hidden);
  for (Rows* buffer : {&qr, &qrq})
    buffer->shape(rows, c.q_lora);
  for (Rows* buffer : {&q, &heads_out})
    buffer->shape(rows, c.heads * c.head_dim);
  for (Rows* buffer : {&kv, &raw_kv, &raw_gate, &latent})
    buffer->shape(rows, c.head_dim);
  key.shape(rows, c.index_head_dim);
  z.shape(rows, c.o_groups * c.o_lora);
  window.shape(window_rows, c.head_dim);
  index_q.shape(rows, c.index_heads * c.index_head_dim);
  index_weight.shape(rows, c.index_heads);
  chosen.width = c.index_topk;
  candidates.width = c.candidate_blocks;

  const std::int64_t k = c.experts_per_token;
  router.shape(rows, c.experts);
  router_weight.shape(rows, k);
  gathered.shape(rows * k, c.hidden);
  expert_out.shape(rows * k, c.hidden);
  router_ids.resize(static_cast<std::size_t>(rows * k));
  expert_slots.resize(static_cast<std::size_t>(rows * k));
  slot_of.resize(static_cast<std::size_t>(rows * k));
  expert_begin.resize(static_cast<std::size_t>(c.experts + 1));
  expert_counts.assign(static_cast<std::size_t>(c.layers * c.experts), 0);

  staged.resize(static_cast<std::size_t>(c.layers * rows * layout.window_row_bytes));
  staged_pending.resize(sequences.size() * layout.sources.size() *
                        static_cast<std::size_t>(2 * c.head_dim));
}

std::int64_t StepState::source_index(std::int64_t layer) const {
  for (std::size_t i = 0; i < layout.sources.size(); ++i) {
    if (layout.sources[i].layer == layer) return static_cast<std::int64_t>(i);
  }
  TROUPE_CHECK(false, "not a KV source");
  return 0;
}

void StepState::traced(std::int64_t layer, TraceTensor what, const Rows& rows) {
  if (trace == nullptr) return;
  for (const SequenceStep& s : sequences) {
    trace->put(layer, what, s.first_position, s.count, rows.cols(), rows.row(s.begin));
  }
}

void StepState::traced_ids(std::int64_t layer, TraceIds what, std::int64_t cols,
                           const std::int32_t* ids) {
  if (trace == nullptr) return;
  for (const SequenceStep& s : sequences) {
    trace->put_ids(layer, what, s.first_position, s.count, cols, ids + s.begin * cols);
  }
}

} // namespace troupe::engine
