#include "schedulers/core/printable.hpp"

#include "schedulers/core/hex.hpp"
#include "schedulers/core/utf8.hpp"

#include <algorithm>
#include <cstdint>

namespace troupe {
namespace {

bool is_obeyed(std::uint32_t code) {
  const auto within = [code](std::uint32_t low, std::uint32_t high) {
    return code >= low && code <= high;
  };
  return code < 0x20 || within(0x7F, 0x9F) || within(0x200E, 0x200F) || within(0x2028, 0x202E) ||
         within(0x2066, 0x2069) || code == 0xFEFF;
}

/// `text` between `mark`s, which is empty or a quote.
std::string shown(std::string_view text, std::size_t bytes_max, std::string_view mark) {
  std::string out(mark);
  std::size_t at = 0;
  while (at < text.size()) {
    const Utf8Front front = utf8_front(text.substr(at));
    const bool is_whole = front.kind == Utf8Front::Kind::whole;
    const std::string_view own = text.substr(at, is_whole ? front.bytes : 1);
    if (at + own.size() > bytes_max) break;
    const std::uint32_t code = is_whole ? utf8_code(own) : static_cast<unsigned char>(own.front());
    if (!is_whole || (is_obeyed(code) && code < 0x80)) {
      append_hex(code, 2, out.append("\\x"));
    } else if (is_obeyed(code)) {
      append_hex(code, 4, out.append("\\u"));
    } else {
      if (!mark.empty() && (own == mark || own == "\\")) out += '\\';
      out += own;
    }
    at += own.size();
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
