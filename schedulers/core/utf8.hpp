// What well-formed UTF-8 is: one look at the front of some bytes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe {

/// The first character of some bytes, or why there is none.
struct Utf8Front {
  enum class Kind : std::uint8_t {
    whole,
    broken,     ///< Cannot become a character, whatever follows.
    unfinished, ///< The bytes end inside of it.
  };
  Kind kind = Kind::broken;
  std::size_t bytes = 1; ///< Of the character, or of the maximal part that belongs together.
};

/// Overlong forms, surrogates and what lies above U+10FFFF are broken. Pure. @pre not empty
Utf8Front utf8_front(std::string_view bytes) noexcept;

/// Number of the character. @pre utf8_front(bytes) is whole
std::uint32_t utf8_code(std::string_view bytes) noexcept;

/// Offset of the first byte that is not part of well-formed UTF-8, or nothing. Pure.
std::optional<std::size_t> invalid_utf8_at(std::string_view bytes) noexcept;

} // namespace troupe
