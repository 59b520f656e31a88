#include "engine/text/utf8.hpp"

#include <cstdint>

namespace troupe::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// One look at the front of some bytes.
struct Front {
  enum class Kind : std::uint8_t { whole, broken, unfinished } kind;
  std::size_t bytes; ///< Of the character, or of the maximal broken part.
};

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

Front look(std::string_view bytes) noexcept {
  const Lead lead = lead_of(static_cast<unsigned char>(bytes.front()));
  if (lead.length == 0) return {Front::Kind::broken, 1};
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Front::Kind::unfinished, i};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const unsigned char low = i == 1 ? lead.low : 0x80;
    const unsigned char high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return {Front::Kind::broken, i};
  }
  return {Front::Kind::whole, lead.length};
}

} // namespace

std::optional<std::size_t> invalid_utf8_at(std::string_view bytes) noexcept {
  std::size_t at = 0;
  while (at < bytes.size()) {
    if (static_cast<unsigned char>(bytes[at]) < 0x80) {
      ++at;
      continue;
    }
    const Front front = look(bytes.substr(at));
    if (front.kind != Front::Kind::whole) return at;
    at += front.bytes;
  }
  return std::nullopt;
}

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_;
    joined += bytes;
    held_.clear();
    bytes = joined;
  }
  std::size_t copied = 0;
  std::size_t at = 0;
  while (at < bytes.size()) {
    const Front front = look(bytes.substr(at));
    if (front.kind == Front::Kind::whole) {
      at += front.bytes;
      continue;
    }
    out.append(bytes.substr(copied, at - copied));
    if (front.kind == Front::Kind::unfinished) {
      held_ = bytes.substr(at);
      return;
    }
    out.append(kReplacement);
    at += front.bytes;
    copied = at;
  }
  out.append(bytes.substr(copied));
}

void Utf8Stream::flush(std::string& out) {
  if (!held_.empty()) out.append(kReplacement);
  held_.clear();
}

} // namespace troupe::text
