// Finds one string in a stream, a byte at a time (Knuth, Morris, Pratt).

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

/// Knows after every byte how much of its pattern the stream ends with.
class StringMatcher {
public:
  /// @pre pattern is not empty
  explicit StringMatcher(std::string_view pattern);

  /// Takes the next byte; true when the stream now ends with the pattern. Cost: O(1) amortised.
  bool step(char byte) noexcept;

  /// Bytes of the pattern that the stream ends with; after a match, of the next one that overlaps.
  std::size_t held() const noexcept { return held_; }
  std::size_t size() const noexcept { return pattern_.size(); }
  void reset() noexcept { held_ = 0; }

private:
  std::string pattern_;
  std::vector<std::size_t> border_; ///< [i] longest border of the first i bytes.
  std::size_t held_ = 0;
};

} // namespace troupe::text
