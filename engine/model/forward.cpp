#include "engine/model/forward.hpp"

#include "engine/model/layer.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::engine {

namespace {

void embed(StepState& s) {
  const std::int64_t hidden = s.c.hidden;
  for (std::int64_t t = 0; t < s.token_count; ++t) {
    float* streams = s.streams.row(t);
    s.weights.embed(s.tokens[static_cast<std::size_t>(t)], streams);
    for (std::int64_t k = 1; k < s.c.hc_streams; ++k) {
      std::copy_n(streams, hidden, streams + k * hidden);
    }
    std::fill_n(s.mix.row(t), s.c.hc_streams, 0.0F);
    s.mix.row(t)[0] = 1.0F;
  }
}

/// Final collapse and norm of one token.
void final_row(StepState& s, std::int64_t t, float* out) {
  s.ops.collapse(s.streams.row(t), s.mix.row(t), s.c.hc_streams, s.c.hidden, out);
  s.ops.rms_norm(out, s.weights.norm(), s.eps, s.c.hidden, out);
}

/// Logits of the last token of each sequence that wants them.
void head(StepState& s) {
  std::int64_t rows = 0;
  for (const SequenceStep& sequence : s.sequences) {
    if (sequence.wants_logits) final_row(s, sequence.begin + sequence.count - 1, s.x.row(rows++));
  }
  s.logits.shape(rows, s.c.vocab);
  s.linear({s.x.data(), rows, s.c.hidden, s.x.cols()}, s.weights.head(), s.logits.view());
}

/// Logits of every token, for a trace.
void trace_logits(StepState& s) {
  Rows all;
  all.shape(s.token_count, s.c.vocab);
  for (std::int64_t t = 0; t < s.token_count; ++t)
    final_row(s, t, s.x.row(t));
  s.linear(s.x.in(), s.weights.head(), all.view());
  s.traced(s.c.layers, TraceTensor::logits, all);
}

} // namespace

void forward(StepState& s) {
  look_back(s);
  embed(s);
  for (std::int64_t layer = 0; layer < s.c.layers; ++layer)
    run_layer(s, layer);
  if (s.trace != nullptr) trace_logits(s);
  head(s);
}

void commit(StepState& s, std::size_t index) {
  const SequenceStep& sequence = s.sequences[index];
  const KvLayout& layout = s.layout;
  const std::int64_t end = sequence.end_position();
  const std::int64_t fresh = std::min(sequence.count, layout.window);
  for (std::int64_t layer = 0; layer < layout.layers; ++layer) {
    for (std::int64_t p = end - fresh; p < end; ++p) {
      std::memcpy(sequence.slot + layout.window_row_offset(layer, p),
                  s.staged_row(layer, sequence.begin + p - sequence.first_position),
                  static_cast<std::size_t>(layout.window_row_bytes));
    }
  }
  const auto pending = static_cast<std::size_t>(2 * layout.head_dim);
  for (std::size_t i = 0; i < layout.sources.size(); ++i) {
    const KvSourceLayout& source = layout.sources[i];
    if (source.ratio == 1 || end % source.ratio == 0) continue;
    std::memcpy(sequence.slot + source.pending_offset,
                s.staged_pending.data() + (index * layout.sources.size() + i) * pending,
                pending * sizeof(float));
  }
  const auto grams = static_cast<std::size_t>(layout.grams);
  if (grams > 0) {
    std::memcpy(sequence.slot + 8, s.staged_grams.data() + index * grams, grams * 4);
  }
  std::memcpy(sequence.slot, &end, sizeof(end));
}

} // namespace troupe::engine
