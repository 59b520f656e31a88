// Choice of compressed rows: scores of index keys, top-k with ties to the lower row, candidates.
//
// Keys always come from the layer's KV owner. A token whose visible rows all fit is not scored.

#include "engine/model/layer.hpp"
#include "kernels/lowbit.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

namespace troupe::engine {

namespace {

constexpr std::int64_t kTokenTile = 16; ///< Tokens of one sequence that share decoded keys.
constexpr std::int64_t kKeyTile = 64;   ///< Keys decoded at a time.
constexpr float kNone = -std::numeric_limits<float>::infinity();

/// Orders scores descending, then indices ascending, as one integer. -0 counts as 0.
std::uint64_t order_key(float score, std::int64_t index) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(score + 0.0F);
  const std::uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return (std::uint64_t{~ascending} << 32) | static_cast<std::uint32_t>(index);
}

/// The best `k` indices of `score`, ascending; -inf and NaN are never taken.
///
/// @return how many were written to out [k]
std::int64_t select_top(std::span<const float> score, std::int64_t k,
                        std::vector<std::uint64_t>& keys, std::int32_t* out) {
  keys.clear();
  for (std::size_t i = 0; i < score.size(); ++i) {
    if (score[i] > kNone) keys.push_back(order_key(score[i], static_cast<std::int64_t>(i)));
  }
  const auto count = std::min(k, static_cast<std::int64_t>(keys.size()));
  if (count < static_cast<std::int64_t>(keys.size())) {
    std::nth_element(keys.begin(), keys.begin() + count, keys.end());
  }
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<std::int32_t>(keys[static_cast<std::size_t>(i)] & 0xFFFFFFFFU);
  }
  std::sort(out, out + count);
  return count;
}

/// Gap between the k-th and the next score; +inf where the choice is forced.
float margin_of(std::vector<float> score, std::int64_t k) {
  if (static_cast<std::int64_t>(score.size()) <= k) return std::numeric_limits<float>::infinity();
  std::sort(score.begin(), score.end(), std::greater<>());
  const float next = score[static_cast<std::size_t>(k)];
  return next > kNone ? score[static_cast<std::size_t>(k - 1)] - next
                      : std::numeric_limits<float>::infinity();
}

float largest_magnitude(std::span<const float> score) {
  float top = 0.0F;
  for (const float value : score) {
    if (std::isfinite(value)) top = std::max(top, std::fabs(value));
  }
  return top;
}

/// Trace of one choice, filled only when somebody looks.
struct ChoiceTrace {
  Rows topk_scale, candidate_margin, candidate_scale;
};

/// One layer's choice for all tokens of a step.
class Chooser {
public:
  Chooser(StepState& s, std::int64_t layer)
      : s_(s), layer_(layer),
        source_(s.layout.sources[static_cast<std::size_t>(s.source_index(s.c.kv_owner(layer)))]),
        makes_candidates_(layer == s.c.candidate_source),
        uses_candidates_(s.c.uses_candidates(layer)) {
    const auto tokens = static_cast<std::size_t>(s.token_count);
    s.chosen.ids.resize(tokens * static_cast<std::size_t>(s.chosen.width));
    s.chosen.count.resize(tokens);
    if (makes_candidates_) {
      s.candidates.ids.resize(tokens * static_cast<std::size_t>(s.candidates.width));
      s.candidates.count.resize(tokens);
    }
    for (Rows* rows : {&trace_.topk_scale, &trace_.candidate_margin, &trace_.candidate_scale}) {
      rows->shape(s.token_count, 1);
    }
  }

  void project(const IndexerWeights& w);
  void choose(const SequenceStep& sequence, std::int64_t first, std::int64_t count,
              WorkerScratch& scratch);
  void report();

private:
  std::int64_t visible(std::int64_t t) const {
    return (s_.position[static_cast<std::size_t>(t)] + 1) / source_.ratio;
  }
  std::int64_t blocks_of(std::int64_t rows) const {
    return (rows + s_.c.candidate_block_size - 1) / s_.c.candidate_block_size;
  }
  bool restricted(std::int64_t t) const {
    return uses_candidates_ && blocks_of(visible(t)) > s_.c.candidate_blocks;
  }
  bool needs_scores(std::int64_t t) const {
    return s_.trace != nullptr || visible(t) > s_.c.index_topk ||
           (makes_candidates_ && blocks_of(visible(t)) > s_.c.candidate_blocks);
  }
  kernels::IndexScoreArgs args(std::int64_t t) const;
  void choose_among_all(std::int64_t t, std::span<const float> score, WorkerScratch& scratch);
  void choose_candidates(std::int64_t t, std::span<const float> score, WorkerScratch& scratch);
  void choose_among_candidates(const SequenceStep& sequence, std::int64_t t,
                               WorkerScratch& scratch);
  void finish(std::int64_t t, std::int64_t count);

  StepState& s_;
  std::int64_t layer_;
  const KvSourceLayout& source_;
  bool makes_candidates_;
  bool uses_candidates_;
  ChoiceTrace trace_;
};

void Chooser::project(const IndexerWeights& w) {
  const std::int64_t dim = s_.c.index_head_dim;
  const std::int64_t heads = s_.c.index_heads;
  const std::int64_t pairs = s_.c.rope_dim / 2;
  s_.linear((s_.quantise ? s_.qrq : s_.qr).in(), w.wq_b, s_.index_q.view());
  s_.linear_wide(s_.x.in(), w.weights_proj, s_.index_weight.view());
  const float by_dim = 1.0F / std::sqrt(static_cast<float>(dim));
  const float by_heads = 1.0F / std::sqrt(static_cast<float>(heads));
  s_.for_ranges(
      s_.token_count, 20 * heads * dim, [&](std::int64_t begin, std::int64_t end, int worker) {
        std::vector<float>& codes = s_.scratch(worker).a;
        auto* bytes = reinterpret_cast<std::uint8_t*>(WorkerScratch::grown(codes, dim));
        for (std::int64_t t = begin; t < end; ++t) {
          s_.ops.rope({s_.index_q.row(t), heads, dim, dim}, s_.compressed.cos.data() + t * pairs,
                      s_.compressed.sin.data() + t * pairs, pairs);
          for (std::int64_t h = 0; h < heads; ++h) {
            float* row = s_.index_q.row(t) + h * dim;
            if (s_.quantise) {
              kernels::pack_fp4(row, dim, bytes, bytes + dim / 2);
              s_.ops.unpack_fp4(bytes, bytes + dim / 2, dim, row);
            }
            s_.index_weight.row(t)[h] = s_.index_weight.row(t)[h] * by_dim * by_heads;
          }
        }
      });
}

kernels::IndexScoreArgs Chooser::args(std::int64_t t) const {
  kernels::IndexScoreArgs out;
  out.q = s_.index_q.row(t);
  out.weight = s_.index_weight.row(t);
  out.heads = s_.c.index_heads;
  out.dim = s_.c.index_head_dim;
  return out;
}

void Chooser::finish(std::int64_t t, std::int64_t count) {
  s_.chosen.count[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(count);
  std::fill(s_.chosen.row(t) + count, s_.chosen.row(t) + s_.chosen.width, -1);
}

void Chooser::choose_candidates(std::int64_t t, std::span<const float> score,
                                WorkerScratch& scratch) {
  const std::int64_t size = s_.c.candidate_block_size;
  const std::int64_t rows = visible(t);
  const std::int64_t blocks = blocks_of(rows);
  std::int32_t* out = s_.candidates.row(t);
  std::int64_t count = blocks;
  if (blocks <= s_.c.candidate_blocks) {
    for (std::int64_t b = 0; b < blocks; ++b)
      out[b] = static_cast<std::int32_t>(b);
  } else {
    std::vector<float> best(static_cast<std::size_t>(blocks), kNone);
    for (std::int64_t j = 0; j < rows; ++j) {
      float& top = best[static_cast<std::size_t>(j / size)];
      top = std::max(top, score[static_cast<std::size_t>(j)]);
    }
    // The block of the newest visible row is always kept.
    best.back() = std::numeric_limits<float>::infinity();
    count = select_top(best, s_.c.candidate_blocks, scratch.keys, out);
    if (s_.trace != nullptr) {
      *trace_.candidate_margin.row(t) = margin_of(best, s_.c.candidate_blocks);
      *trace_.candidate_scale.row(t) = largest_magnitude(best);
    }
  }
  s_.candidates.count[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(count);
  std::fill(out + count, out + s_.candidates.width, -1);
}

void Chooser::choose_among_all(std::int64_t t, std::span<const float> score,
                               WorkerScratch& scratch) {
  if (makes_candidates_) choose_candidates(t, score, scratch);
  if (restricted(t)) return;
  const std::int64_t rows = visible(t);
  if (rows <= s_.c.index_topk) {
    for (std::int64_t j = 0; j < rows; ++j)
      s_.chosen.row(t)[j] = static_cast<std::int32_t>(j);
    finish(t, rows);
  } else {
    finish(t, select_top(score, s_.c.index_topk, scratch.keys, s_.chosen.row(t)));
  }
  if (s_.trace != nullptr) *trace_.topk_scale.row(t) = largest_magnitude(score);
}

void Chooser::choose_among_candidates(const SequenceStep& sequence, std::int64_t t,
                                      WorkerScratch& scratch) {
  const std::int64_t size = s_.c.candidate_block_size;
  const std::int64_t rows = visible(t);
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < s_.candidates.count[static_cast<std::size_t>(t)]; ++i) {
    const std::int64_t first = s_.candidates.row(t)[i] * size;
    for (std::int64_t j = first; j < std::min(first + size, rows); ++j) {
      ids.push_back(static_cast<std::int32_t>(j));
    }
  }
  const auto count = static_cast<std::int64_t>(ids.size());
  float* keys = WorkerScratch::grown(scratch.a, count * s_.c.index_head_dim);
  float* score = WorkerScratch::grown(scratch.b, count);
  read_index_keys(s_, source_, sequence, ids.data(), 0, count, keys);
  kernels::IndexScoreArgs a = args(t);
  a.keys = keys;
  a.out = score;
  a.rows = count;
  s_.ops.index_scores(a);
  const std::span<const float> scores(score, static_cast<std::size_t>(count));
  std::int32_t* out = s_.chosen.row(t);
  const std::int64_t taken = select_top(scores, s_.c.index_topk, scratch.keys, out);
  for (std::int64_t i = 0; i < taken; ++i)
    out[i] = ids[static_cast<std::size_t>(out[i])];
  finish(t, taken);
  if (s_.trace != nullptr) *trace_.topk_scale.row(t) = largest_magnitude(scores);
}

/// Chooses for tokens [first, first + count) of one sequence.
void Chooser::choose(const SequenceStep& sequence, std::int64_t first, std::int64_t count,
                     WorkerScratch& scratch) {
  const std::int64_t dim = s_.c.index_head_dim;
  const std::int64_t stride = visible(first + count - 1);
  float* score = WorkerScratch::grown(scratch.c, kTokenTile * stride);
  std::int64_t scored = 0; // rows that some token of the tile needs
  for (std::int64_t i = 0; i < count; ++i) {
    if (needs_scores(first + i) && !restricted(first + i)) scored = visible(first + i);
  }
  float* keys = WorkerScratch::grown(scratch.a, kKeyTile * dim);
  for (std::int64_t begin = 0; begin < scored; begin += kKeyTile) {
    const std::int64_t rows = std::min(kKeyTile, scored - begin);
    read_index_keys(s_, source_, sequence, nullptr, begin, rows, keys);
    for (std::int64_t i = 0; i < count; ++i) {
      kernels::IndexScoreArgs a = args(first + i);
      a.keys = keys;
      a.out = score + i * stride + begin;
      a.rows = std::clamp<std::int64_t>(visible(first + i) - begin, 0, rows);
      s_.ops.index_scores(a);
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t t = first + i;
    choose_among_all(t, {score + i * stride, static_cast<std::size_t>(visible(t))}, scratch);
  }
  for (std::int64_t t = first; t < first + count; ++t) {
    if (restricted(t)) choose_among_candidates(sequence, t, scratch);
  }
}

void Chooser::report() {
  s_.traced(layer_, TraceTensor::topk_scale, trace_.topk_scale);
  s_.traced_ids(layer_, TraceIds::topk, s_.chosen.width, s_.chosen.ids.data());
  if (!makes_candidates_) return;
  s_.traced(layer_, TraceTensor::candidate_margin, trace_.candidate_margin);
  s_.traced(layer_, TraceTensor::candidate_scale, trace_.candidate_scale);
  s_.traced_ids(layer_, TraceIds::candidates, s_.candidates.width, s_.candidates.ids.data());
}

/// A stretch of tokens of one sequence.
struct Tile {
  std::int64_t sequence = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

} // namespace

void run_indexer(StepState& s, std::int64_t layer) {
  Chooser chooser(s, layer);
  chooser.project(*s.weights.layer(layer).indexer);
  std::vector<Tile> tiles;
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < s.sequences.size(); ++i) {
    const SequenceStep& sequence = s.sequences[i];
    longest = std::max(longest, sequence.end_position());
    for (std::int64_t at = 0; at < sequence.count; at += kTokenTile) {
      tiles.push_back({static_cast<std::int64_t>(i), sequence.begin + at,
                       std::min(kTokenTile, sequence.count - at)});
    }
  }
  const std::int64_t cost = longest * s.c.index_heads * s.c.index_head_dim;
  s.for_ranges(static_cast<std::int64_t>(tiles.size()), cost,
               [&](std::int64_t begin, std::int64_t end, int worker) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const Tile& tile = tiles[static_cast<std::size_t>(i)];
                   chooser.choose(s.sequences[static_cast<std::size_t>(tile.sequence)], tile.first,
                                  tile.count, s.scratch(worker));
                 }
               });
  if (s.trace != nullptr) chooser.report();
}

} // namespace troupe::engine
