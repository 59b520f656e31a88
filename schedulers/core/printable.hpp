// Somebody else's text inside a message: one line, bounded, nothing that a terminal obeys.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

/// Bytes of a name, key or value that a message repeats at most.
inline constexpr std::size_t kShownBytesMax = 120;

/// Bytes of a path: it is told whole as long as any system could open it.
inline constexpr std::size_t kShownPathMax = 1024;

/// `text` as a message may repeat it. Pure.
///
/// Control characters, line separators, marks that turn the direction of writing and bytes that are
/// no UTF-8 become "\x0a" or "\u202e". Of a longer text the first `bytes_max` bytes are kept, cut
/// between characters, and its length is told: "aaa... (10000 bytes)".
std::string printable(std::string_view text, std::size_t bytes_max = kShownBytesMax);

/// The same between double quotes; quotes and backslashes inside are escaped. Pure.
std::string quote(std::string_view text, std::size_t bytes_max = kShownBytesMax);

/// A whole message, the last look before it is written: printable, without words longer than
/// kShownPathMax. Pure.
std::string message_line(std::string_view text);

} // namespace troupe
