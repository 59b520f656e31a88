// SHA-256: names that a hostile prompt cannot make collide.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace troupe {

using Sha256Digest = std::array<std::uint8_t, 32>;

/// SHA-256 of bytes that come in pieces.
///
/// Source: FIPS 180-4.
class Sha256 {
public:
  void add(std::span<const std::uint8_t> bytes) noexcept;
  void add(std::string_view text) noexcept;
  /// Four bytes, the lowest first.
  void add_le32(std::uint32_t value) noexcept;

  /// The digest of all that was added. The object is spent.
  Sha256Digest finish() noexcept;

private:
  void add_byte(std::uint8_t byte) noexcept;
  void compress() noexcept;

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> block_ = {};
  std::size_t filled_ = 0;  ///< Bytes of block_ that wait.
  std::uint64_t bytes_ = 0; ///< All that was added.
};

} // namespace troupe
