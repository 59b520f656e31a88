// Bytes of one kv_block and of one state slot.
//
// Both are plain arrays of rows without pointers or tables, because engines copy them bytewise.
// Everything a reader must know to find a row is in KvLayout, and layout_id names all of it.

#pragma once

#include "engine/model/config.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace troupe::engine {

/// How rows are stored: packed keeps the checkpoint's own low-bit formats, f32 plain floats.
enum class KvFormat : std::uint8_t { packed, f32 };

/// "packed" or "f32".
std::string_view kv_format_name(KvFormat format) noexcept;

/// Rows of one KV source within a block: main rows, then index keys. Offsets in bytes.
struct KvSourceLayout {
  std::int64_t layer = 0;
  std::int64_t ratio = 1;          ///< Tokens of a row.
  std::int64_t rows = 0;           ///< In a block.
  std::int64_t main_offset = 0;    ///< In the block.
  std::int64_t keys_offset = 0;    ///< In the block.
  std::int64_t pending_offset = 0; ///< In the slot: (kv, gate) of an incomplete pair; ratio 2 only.
};

/// Where everything lies. All sizes and offsets in bytes unless the name says otherwise.
///
/// Slot: int64 length, int32 compressed ids [ngram_max - 1] of the newest tokens (oldest first, -1
/// for none), window rings [layers][window][window_row_bytes] with position p at p mod window, then
/// float32 pending pairs [2][head_dim] of the ratio-2 sources.
///
/// Packed rows: codes, then scales. Window rows e4m3 with ue8m0 per 32, main rows e2m1 with e4m3
/// per 16, index keys e2m1 with ue8m0 per 32.
struct KvLayout {
  KvFormat format = KvFormat::packed;
  std::int64_t block_tokens = 0;
  std::int64_t layers = 0;
  std::int64_t window = 0;    ///< Rows of a ring.
  std::int64_t head_dim = 0;  ///< Values of a window or main row.
  std::int64_t index_dim = 0; ///< Values of an index key.
  std::int64_t grams = 0;     ///< Compressed ids kept.
  std::int64_t window_row_bytes = 0;
  std::int64_t main_row_bytes = 0;
  std::int64_t key_row_bytes = 0;
  std::int64_t rings_offset = 0;
  std::int64_t slot_bytes = 0;
  std::int64_t block_bytes = 0;
  std::vector<KvSourceLayout> sources; ///< Ascending by layer.
  std::uint64_t layout_id = 0;         ///< Digest of everything above.

  std::int64_t window_row_offset(std::int64_t layer, std::int64_t position) const noexcept {
    return rings_offset + (layer * window + position % window) * window_row_bytes;
  }
};

/// Lays out slots and blocks of a model. Pure.
///
///   Errors   bad_argument when block_tokens is no multiple of every ratio and of the candidate
///            blocks; unsupported when a width does not fit the packed formats
Result<KvLayout> make_kv_layout(const ModelConfig& config, KvFormat format,
                                std::int64_t block_tokens);

} // namespace troupe::engine
