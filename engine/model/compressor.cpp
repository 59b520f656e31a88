// Compressed rows: pooling of groups of tokens, packing into kv blocks, reading back.

#include "engine/model/layer.hpp"
#include "kernels/lowbit.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace troupe::engine {

namespace {

/// A group that this step completes.
struct Group {
  std::int64_t sequence = 0;
  std::int64_t row = 0;    ///< Index of the compressed row in its sequence.
  const float* kv[2] = {}; ///< [head_dim] of its tokens
  const float* gate[2] = {};
};

/// Softmax over the two tokens of a pair, for each channel.
void pool_pair(const Group& group, std::int64_t dim, float* out) {
  for (std::int64_t i = 0; i < dim; ++i) {
    const float top = std::max(group.gate[0][i], group.gate[1][i]);
    const float first = std::exp(group.gate[0][i] - top);
    const float second = std::exp(group.gate[1][i] - top);
    const float sum = first + second;
    out[i] = first / sum * group.kv[0][i] + second / sum * group.kv[1][i];
  }
}

std::byte* main_row(const StepState& s, const KvSourceLayout& source, const SequenceStep& sequence,
                    std::int64_t row) {
  return sequence.blocks[static_cast<std::size_t>(row / source.rows)] + source.main_offset +
         row % source.rows * s.layout.main_row_bytes;
}

std::byte* key_row(const StepState& s, const KvSourceLayout& source, const SequenceStep& sequence,
                   std::int64_t row) {
  return sequence.blocks[static_cast<std::size_t>(row / source.rows)] + source.keys_offset +
         row % source.rows * s.layout.key_row_bytes;
}

float* staged_pending(StepState& s, std::size_t sequence, std::size_t source) {
  return s.staged_pending.data() +
         (sequence * s.layout.sources.size() + source) * static_cast<std::size_t>(2 * s.c.head_dim);
}

/// Lists the completed groups and stages the pending half of a pair.
std::vector<Group> groups_of(StepState& s, std::size_t source_index) {
  const KvSourceLayout& source = s.layout.sources[source_index];
  const std::int64_t r = source.ratio;
  const std::int64_t d = s.c.head_dim;
  std::vector<Group> groups;
  for (std::size_t i = 0; i < s.sequences.size(); ++i) {
    const SequenceStep& sequence = s.sequences[i];
    const auto* pending = reinterpret_cast<const float*>(sequence.slot + source.pending_offset);
    for (std::int64_t row = sequence.first_position / r; row < sequence.end_position() / r; ++row) {
      Group group{.sequence = static_cast<std::int64_t>(i), .row = row};
      for (std::int64_t member = 0; member < r; ++member) {
        const std::int64_t t = row * r + member - sequence.first_position + sequence.begin;
        const bool earlier = row * r + member < sequence.first_position;
        group.kv[member] = earlier ? pending : s.raw_kv.row(t);
        group.gate[member] = earlier ? pending + d : s.raw_gate.row(t);
      }
      groups.push_back(group);
    }
    if (r > 1 && sequence.end_position() % r != 0) {
      const std::int64_t last = sequence.begin + sequence.count - 1;
      float* staged = staged_pending(s, i, source_index);
      std::copy_n(s.raw_kv.row(last), d, staged);
      std::copy_n(s.raw_gate.row(last), d, staged + d);
    }
  }
  return groups;
}

void store_main(const StepState& s, const float* row, std::byte* to) {
  const std::int64_t d = s.c.head_dim;
  if (!s.quantise) {
    std::memcpy(to, row, static_cast<std::size_t>(d) * 4);
    return;
  }
  auto* codes = reinterpret_cast<std::uint8_t*>(to);
  kernels::pack_fp4_e4m3(row, d, codes, codes + d / 2);
}

void store_key(const StepState& s, const float* row, std::byte* to) {
  const std::int64_t d = s.c.index_head_dim;
  if (!s.quantise) {
    std::memcpy(to, row, static_cast<std::size_t>(d) * 4);
    return;
  }
  auto* codes = reinterpret_cast<std::uint8_t*>(to);
  kernels::pack_fp4(row, d, codes, codes + d / 2);
}

/// Rotates and stores the rows and keys of some groups.
void store_groups(StepState& s, const CompressorWeights& w, const KvSourceLayout& source,
                  std::span<const Group> groups, std::int64_t first) {
  const auto pairs = s.c.rope_dim / 2;
  std::vector<float> turn(static_cast<std::size_t>(2 * pairs));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Group& group = groups[i];
    const std::int64_t g = first + static_cast<std::int64_t>(i);
    const SequenceStep& sequence = s.sequences[static_cast<std::size_t>(group.sequence)];
    rope_angles(group.row * source.ratio, s.weights.compressed_frequencies(), turn.data(),
                turn.data() + pairs);
    float* latent = s.latent.row(g);
    s.ops.rope({latent, 1, s.c.head_dim, s.c.head_dim}, turn.data(), turn.data() + pairs, pairs);
    store_main(s, latent, main_row(s, source, sequence, group.row));

    float* key = s.key.row(g);
    s.ops.rms_norm(key, w.k_norm, s.eps, s.c.index_head_dim, key);
    s.ops.rope({key, 1, s.c.index_head_dim, s.c.index_head_dim}, turn.data(), turn.data() + pairs,
               pairs);
    store_key(s, key, key_row(s, source, sequence, group.row));
  }
}

void trace_groups(StepState& s, const KvSourceLayout& source, std::span<const Group> groups) {
  std::vector<float> row(static_cast<std::size_t>(std::max(s.c.head_dim, s.c.index_head_dim)));
  for (const Group& group : groups) {
    const SequenceStep& sequence = s.sequences[static_cast<std::size_t>(group.sequence)];
    read_main_rows(s, source, sequence, nullptr, group.row, 1, row.data());
    s.trace->put(source.layer, TraceTensor::compressed_rows, group.row, 1, s.c.head_dim,
                 row.data());
    read_index_keys(s, source, sequence, nullptr, group.row, 1, row.data());
    s.trace->put(source.layer, TraceTensor::index_keys, group.row, 1, s.c.index_head_dim,
                 row.data());
  }
}

} // namespace

void run_compressor(StepState& s, std::int64_t layer) {
  const CompressorWeights& w = *s.weights.layer(layer).compressor;
  const auto index = static_cast<std::size_t>(s.source_index(layer));
  const KvSourceLayout& source = s.layout.sources[index];
  s.linear_wide(s.x.in(), w.wkv, s.raw_kv.view());
  if (source.ratio > 1) s.linear_wide(s.x.in(), w.wgate, s.raw_gate.view());
  const std::vector<Group> groups = groups_of(s, index);
  const auto count = static_cast<std::int64_t>(groups.size());

  s.for_ranges(count, 40 * s.c.head_dim, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t g = begin; g < end; ++g) {
      const Group& group = groups[static_cast<std::size_t>(g)];
      float* latent = s.latent.row(g);
      if (source.ratio > 1) {
        pool_pair(group, s.c.head_dim, latent);
      } else {
        std::copy_n(group.kv[0], s.c.head_dim, latent);
      }
      s.ops.rms_norm(latent, w.norm, s.eps, s.c.head_dim, latent);
    }
  });
  // Keys come from the unrotated latents.
  s.linear_wide({s.latent.data(), count, s.c.head_dim, s.c.head_dim}, w.wk,
                {s.key.data(), count, s.c.index_head_dim, s.c.index_head_dim});
  s.for_ranges(count, 60 * s.c.head_dim, [&](std::int64_t begin, std::int64_t end, int) {
    store_groups(s, w, source,
                 std::span(groups).subspan(static_cast<std::size_t>(begin),
                                           static_cast<std::size_t>(end - begin)),
                 begin);
  });
  if (s.trace != nullptr) trace_groups(s, source, groups);
}

void read_main_rows(const StepState& s, const KvSourceLayout& source, const SequenceStep& sequence,
                    const std::int32_t* ids, std::int64_t first, std::int64_t count, float* out) {
  const std::int64_t d = s.c.head_dim;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::byte* from = main_row(s, source, sequence, ids != nullptr ? ids[i] : first + i);
    if (s.quantise) {
      const auto* codes = reinterpret_cast<const std::uint8_t*>(from);
      s.ops.unpack_fp4_e4m3(codes, codes + d / 2, d, out + i * d);
    } else {
      std::memcpy(out + i * d, from, static_cast<std::size_t>(d) * 4);
    }
  }
}

void read_index_keys(const StepState& s, const KvSourceLayout& source, const SequenceStep& sequence,
                     const std::int32_t* ids, std::int64_t first, std::int64_t count, float* out) {
  const std::int64_t d = s.c.index_head_dim;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::byte* from = key_row(s, source, sequence, ids != nullptr ? ids[i] : first + i);
    if (s.quantise) {
      const auto* codes = reinterpret_cast<const std::uint8_t*>(from);
      s.ops.unpack_fp4(codes, codes + d / 2, d, out + i * d);
    } else {
      std::memcpy(out + i * d, from, static_cast<std::size_t>(d) * 4);
    }
  }
}

} // namespace troupe::engine
