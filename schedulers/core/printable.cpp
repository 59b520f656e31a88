#include "schedulers/core/printable.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace troupe {
namespace {

/// One character of a text; `bytes` is 1 and `valid` false for a byte that begins none.
struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

/// @pre `text` is not empty
Character first_of(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {lead, 1, false};
  std::uint32_t code = lead & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {lead, 1, false};
    code = code << 6 | (byte(i) & 0x3FU);
  }
  constexpr std::array<std::uint32_t, 5> kLowest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kLowest.at(bytes) || code > 0x10FFFF || surrogate) return {lead, 1, false};
  return {code, bytes, true};
}

bool is_obeyed(std::uint32_t code) {
  const auto within = [code](std::uint32_t low, std::uint32_t high) {
    return code >= low && code <= high;
  };
  return code < 0x20 || within(0x7F, 0x9F) || within(0x200E, 0x200F) || within(0x2028, 0x202E) ||
         within(0x2066, 0x2069) || code == 0xFEFF;
}

void append_hex(std::uint32_t value, int digits, std::string& out) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (int i = digits - 1; i >= 0; --i)
    out += kDigits[value >> (4 * i) & 0xFU];
}

/// `text` between `mark`s, which is empty or a quote.
std::string shown(std::string_view text, std::size_t bytes_max, std::string_view mark) {
  std::string out(mark);
  std::size_t at = 0;
  while (at < text.size()) {
    const Character next = first_of(text.substr(at));
    if (at + next.bytes > bytes_max) break;
    const std::string_view own = text.substr(at, next.bytes);
    if (!next.valid || (is_obeyed(next.code) && next.code < 0x80)) {
      append_hex(next.code, 2, out.append("\\x"));
    } else if (is_obeyed(next.code)) {
      append_hex(next.code, 4, out.append("\\u"));
    } else {
      if (!mark.empty() && (own == mark || own == "\\")) out += '\\';
      out += own;
    }
    at += next.bytes;
  }
  const bool is_cut = at < text.size();
  if (is_cut) out += "...";
  out += mark;
  if (is_cut) out.append(" (").append(std::to_string(text.size())).append(" bytes)");
  return out;
}

} // namespace

std::string printable(std::string_view text, std::size_t bytes_max) {
  return shown(text, bytes_max, "");
}

std::string quote(std::string_view text, std::size_t bytes_max) {
  return shown(text, bytes_max, "\"");
}

std::string message_line(std::string_view text) {
  constexpr std::size_t kLineBytesMax = 16'384;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    out += printable(text.substr(at, end - at), kShownPathMax);
    out.append(end < text.size() ? 1 : 0, ' ');
    at = end + 1;
  }
  return printable(out, kLineBytesMax);
}

} // namespace troupe
