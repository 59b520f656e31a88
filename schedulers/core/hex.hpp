// Numbers and bytes as lower-case hexadecimal digits.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

/// Appends the lowest `digits` digits of `value`, the highest first.
inline void append_hex(std::uint64_t value, int digits, std::string& out) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (int i = digits - 1; i >= 0; --i)
    out += kDigits[value >> (4 * i) & 0xFU];
}

/// Two digits a byte.
inline std::string hex_of(std::string_view bytes) {
  std::string out;
  out.reserve(2 * bytes.size());
  for (const char byte : bytes)
    append_hex(static_cast<unsigned char>(byte), 2, out);
  return out;
}

} // namespace troupe
