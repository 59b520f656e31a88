#include "schedulers/core/utf8.hpp"

namespace troupe {
namespace {

/// Bounds of the second byte, which alone exclude overlong forms, surrogates and > U+10FFFF.
struct Lead {
  std::size_t length;
  unsigned char low;
  unsigned char high;
};

Lead lead_of(unsigned char byte) noexcept {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

} // namespace

Utf8Front utf8_front(std::string_view bytes) noexcept {
  const Lead lead = lead_of(static_cast<unsigned char>(bytes.front()));
  if (lead.length == 0) return {Utf8Front::Kind::broken, 1};
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Utf8Front::Kind::unfinished, i};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const unsigned char low = i == 1 ? lead.low : 0x80;
    const unsigned char high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return {Utf8Front::Kind::broken, i};
  }
  return {Utf8Front::Kind::whole, lead.length};
}

std::uint32_t utf8_code(std::string_view bytes) noexcept {
  const auto lead = static_cast<unsigned char>(bytes.front());
  const std::size_t length = lead_of(lead).length;
  if (length == 1) return lead;
  std::uint32_t code = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i)
    code = code << 6 | (static_cast<unsigned char>(bytes[i]) & 0x3FU);
  return code;
}

std::optional<std::size_t> invalid_utf8_at(std::string_view bytes) noexcept {
  std::size_t at = 0;
  while (at < bytes.size()) {
    if (static_cast<unsigned char>(bytes[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Front front = utf8_front(bytes.substr(at));
    if (front.kind != Utf8Front::Kind::whole) return at;
    at += front.bytes;
  }
  return std::nullopt;
}

} // namespace troupe
