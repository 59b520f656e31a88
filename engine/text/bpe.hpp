// Merges the bytes of one piece into tokens, lowest rank first, leftmost first among equals.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace troupe::text {

/// Two neighbouring tokens become one.
struct Merge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t merged = 0;
};

/// The merge table. Immutable, so any number of threads may use it.
class Bpe {
public:
  Bpe() = default;

  /// @param byte_ids  [256] id of each single byte
  /// @param merges    rank order; of a repeated pair the last one counts
  Bpe(const std::array<std::int32_t, 256>& byte_ids, const std::vector<Merge>& merges);

  /// Appends the ids of `piece`. Cost: O(n log n).
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const;

private:
  struct Entry {
    std::uint64_t pair = kNoPair;
    std::int32_t rank = 0;
    std::int32_t merged = 0;
  };
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};

  const Entry* find(std::int32_t left, std::int32_t right) const noexcept;
  void encode_short(std::string_view piece, std::vector<std::int32_t>& ids) const;
  void encode_long(std::string_view piece, std::vector<std::int32_t>& ids) const;

  std::array<std::int32_t, 256> byte_ids_{};
  std::vector<Entry> table_; ///< Open addressing; the size is a power of two.
};

} // namespace troupe::text
