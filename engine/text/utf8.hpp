// UTF-8 as it arrives: whole characters out, never a split one, broken bytes replaced.

#pragma once

#include "schedulers/core/utf8.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe::text {

using troupe::invalid_utf8_at;

/// Turns a stream of bytes into well-formed UTF-8.
///
/// A character whose bytes have not all come is held; bytes that can no longer become one give
/// U+FFFD, one per maximal broken part, as Python's decode(errors="replace") does. The concatenated
/// output does not depend on how the bytes were cut.
class Utf8Stream {
public:
  /// Appends to `out` the text that `bytes` completes.
  void push(std::string_view bytes, std::string& out);

  /// Ends the stream: an unfinished character gives one U+FFFD.
  void flush(std::string& out);

  /// Bytes held back, 0 to 3.
  std::size_t held_bytes() const noexcept { return held_.size(); }

private:
  std::string held_;
};

} // namespace troupe::text
