// Engram: n-gram hashes of compressed token ids, table rows, gated addition to the streams.

#include "engine/model/layer.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::engine {

namespace {

constexpr std::int32_t kDead = -1; ///< Image tokens and positions before the sequence.

/// Table rows of one token, [ids].
///
/// @param grams  [ngram_max] compressed ids, newest first
void table_rows(const EngramConfig& e, std::size_t at, const std::int32_t* grams,
                std::int64_t* rows) {
  // Products wrap like the reference's 64-bit integers; primes keep the remainder in range.
  auto hash =
      static_cast<std::uint64_t>(grams[0]) * static_cast<std::uint64_t>(e.multipliers[at][0]);
  std::size_t id = 0;
  for (std::int64_t i = 1; i < e.ngram_max; ++i) {
    hash ^= static_cast<std::uint64_t>(grams[i]) *
            static_cast<std::uint64_t>(e.multipliers[at][static_cast<std::size_t>(i)]);
    for (std::int64_t head = 0; head < e.heads; ++head, ++id) {
      const std::int64_t prime = e.primes[at][id];
      const std::int64_t rest = static_cast<std::int64_t>(hash) % prime;
      rows[id] = (rest < 0 ? rest + prime : rest) + e.offsets[at][id];
    }
  }
}

} // namespace

void look_back(StepState& s) {
  const EngramConfig& e = s.c.engram;
  if (e.layers.empty()) return;
  const std::int64_t n = e.ngram_max;
  const std::int64_t kept = n - 1;
  const auto compressed = [&e](std::int64_t token) {
    return e.token_map.empty() ? static_cast<std::int32_t>(token)
                               : e.token_map[static_cast<std::size_t>(token)];
  };
  const std::int32_t pad = compressed(e.pad_token);
  s.grams.resize(static_cast<std::size_t>(s.token_count * n));
  s.staged_grams.resize(s.sequences.size() * static_cast<std::size_t>(kept));
  std::vector<std::int32_t> line; // kept earlier ids, then those of the step
  for (std::size_t i = 0; i < s.sequences.size(); ++i) {
    const SequenceStep& sequence = s.sequences[i];
    line.assign(static_cast<std::size_t>(kept + sequence.count), kDead);
    if (sequence.first_position > 0) {
      std::memcpy(line.data(), sequence.slot + 8, static_cast<std::size_t>(kept) * 4);
    }
    for (std::int64_t j = 0; j < sequence.count; ++j) {
      const auto t = static_cast<std::size_t>(sequence.begin + j);
      line[static_cast<std::size_t>(kept + j)] =
          s.is_image[t] != 0 ? kDead : compressed(s.tokens[t]);
    }
    for (std::int64_t j = 0; j < sequence.count; ++j) {
      std::int32_t* grams = s.grams.data() + (sequence.begin + j) * n;
      bool alive = true;
      for (std::int64_t back = 0; back < n; ++back) {
        const std::int32_t id = line[static_cast<std::size_t>(kept + j - back)];
        alive = alive && id != kDead;
        grams[back] = alive ? id : pad;
      }
    }
    std::copy(line.end() - kept, line.end(),
              s.staged_grams.begin() + static_cast<std::ptrdiff_t>(i) * kept);
  }
}

void run_engram(StepState& s, const EngramWeights& w, std::int64_t layer) {
  const EngramConfig& e = s.c.engram;
  const auto at = static_cast<std::size_t>(s.c.engram_index(layer));
  const std::int64_t scales = e.head_dim / kernels::kScaleBlock;
  s.memory.shape(s.token_count, e.ids() * e.head_dim);
  s.memory_kv.shape(s.token_count, (s.c.hc_streams + 1) * s.c.hidden);
  s.for_ranges(s.token_count, 20 * s.memory.cols(), [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(e.ids()));
    for (std::int64_t t = begin; t < end; ++t) {
      table_rows(e, at, s.grams.data() + t * e.ngram_max, rows.data());
      float* out = s.memory.row(t);
      for (std::int64_t i = 0; i < e.ids(); ++i) {
        const std::int64_t row = rows[static_cast<std::size_t>(i)];
        s.ops.unpack_fp8(w.codes + row * e.head_dim, w.scales + row * scales, e.head_dim,
                         out + i * e.head_dim);
      }
      if (s.quantise) s.ops.sim_fp8(out, s.memory.cols(), out);
    }
  });
  s.linear(s.memory.in(), w.wkv, s.memory_kv.view());
  s.for_ranges(s.token_count, 8 * s.memory_kv.cols(),
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t t = begin; t < end; ++t) {
                   if (s.is_image[static_cast<std::size_t>(t)] != 0) continue;
                   s.ops.engram(s.streams.row(t), w.qk, s.memory_kv.row(t), s.eps, s.c.hc_streams,
                                s.c.hidden);
                 }
               });
}

} // namespace troupe::engine
