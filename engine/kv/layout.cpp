#include "engine/kv/layout.hpp"

#include "kernels/dtype.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace troupe::engine {

namespace {

constexpr std::int64_t kAlign = 64;
constexpr std::uint64_t kVersion = 1; ///< Of the meaning of the bytes; changes with it.

std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

/// FNV-1a over 64-bit words: names a layout, guards nothing.
std::uint64_t digest_of(const KvLayout& layout) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  const auto add = [&hash](std::int64_t value) {
    for (int byte = 0; byte < 8; ++byte) {
      hash ^= (static_cast<std::uint64_t>(value) >> (8 * byte)) & 0xFF;
      hash *= 0x100000001B3ULL;
    }
  };
  add(static_cast<std::int64_t>(kVersion));
  add(static_cast<std::int64_t>(layout.format));
  for (const std::int64_t value : std::array{
           layout.block_tokens, layout.layers, layout.window, layout.head_dim, layout.index_dim,
           layout.grams, layout.window_row_bytes, layout.main_row_bytes, layout.key_row_bytes,
           layout.rings_offset, layout.slot_bytes, layout.block_bytes}) {
    add(value);
  }
  for (const KvSourceLayout& source : layout.sources) {
    add(source.layer);
    add(source.ratio);
    add(source.main_offset);
    add(source.keys_offset);
    add(source.pending_offset);
  }
  return hash;
}

Status check(const ModelConfig& config, KvFormat format, std::int64_t block_tokens) {
  std::int64_t multiple = 1;
  for (const std::int64_t layer : config.kv_sources) {
    multiple = std::lcm(multiple, config.ratio(layer));
  }
  if (!config.kv_sources.empty()) {
    const std::int64_t source_ratio = config.ratio(config.candidate_source);
    multiple = std::lcm(multiple, config.candidate_block_size * source_ratio);
  }
  if (block_tokens <= 0 || block_tokens % multiple != 0) {
    return {ErrorCode::bad_argument,
            fmt::format("kv.block_tokens: found {}, expected a positive multiple of {} (of every "
                        "compression ratio and the candidate block of this model); use {}",
                        block_tokens, multiple,
                        multiple * std::max<std::int64_t>(1, 64 / multiple))};
  }
  const std::int64_t fit = format == KvFormat::packed ? kernels::kScaleBlock : 8;
  if (config.head_dim % fit != 0 || config.index_head_dim % fit != 0) {
    return {ErrorCode::unsupported,
            fmt::format("head_dim {} and index_head_dim {} must be multiples of {} for kv rows in "
                        "format {}",
                        config.head_dim, config.index_head_dim, fit, kv_format_name(format))};
  }
  return {};
}

void set_row_bytes(KvLayout& layout) {
  const std::int64_t d = layout.head_dim;
  const std::int64_t k = layout.index_dim;
  const bool packed = layout.format == KvFormat::packed;
  layout.window_row_bytes = packed ? d + d / kernels::kScaleBlock : 4 * d;
  layout.main_row_bytes = packed ? d / 2 + d / kernels::kCompressedScaleBlock : 4 * d;
  layout.key_row_bytes = packed ? k / 2 + k / kernels::kScaleBlock : 4 * k;
}

} // namespace

std::string_view kv_format_name(KvFormat format) noexcept {
  return format == KvFormat::packed ? "packed" : "f32";
}

Result<KvLayout> make_kv_layout(const ModelConfig& config, KvFormat format,
                                std::int64_t block_tokens) {
  if (Status status = check(config, format, block_tokens); !status.ok()) return status.error();
  KvLayout layout;
  layout.format = format;
  layout.block_tokens = block_tokens;
  layout.layers = config.layers;
  layout.window = config.window;
  layout.head_dim = config.head_dim;
  layout.index_dim = config.index_head_dim;
  layout.grams = config.engram.layers.empty() ? 0 : config.engram.ngram_max - 1;
  set_row_bytes(layout);

  layout.rings_offset = aligned(8 + 4 * layout.grams);
  std::int64_t slot =
      aligned(layout.rings_offset + layout.layers * layout.window * layout.window_row_bytes);
  std::int64_t block = 0;
  for (const std::int64_t layer : config.kv_sources) {
    KvSourceLayout source;
    source.layer = layer;
    source.ratio = config.ratio(layer);
    source.rows = block_tokens / source.ratio;
    source.main_offset = block;
    block = aligned(block + source.rows * layout.main_row_bytes);
    source.keys_offset = block;
    block = aligned(block + source.rows * layout.key_row_bytes);
    if (source.ratio > 1) {
      source.pending_offset = slot;
      slot = aligned(slot + 2 * layout.head_dim * 4);
    }
    layout.sources.push_back(source);
  }
  layout.slot_bytes = slot;
  layout.block_bytes = std::max(block, kAlign);
  layout.layout_id = digest_of(layout);
  return layout;
}

} // namespace troupe::engine
