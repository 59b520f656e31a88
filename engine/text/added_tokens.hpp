// Finds added tokens in text: leftmost, then longest.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::text {

/// An added token found in some text.
struct AddedMatch {
  std::size_t begin = 0;
  std::size_t bytes = 0;
  std::int32_t id = 0;
};

/// A byte trie over the spellings of added tokens. Immutable once filled.
class AddedTokenTrie {
public:
  AddedTokenTrie();

  /// @pre content is not empty
  void insert(std::string_view content, std::int32_t id);

  /// The first match at or after `from`, of those the longest. Cost: O(text × longest token) at
  /// worst; one table look-up per byte that begins no token.
  std::optional<AddedMatch> find(std::string_view text, std::size_t from) const;

private:
  struct Node {
    std::int32_t id = -1;
    std::vector<std::pair<unsigned char, std::int32_t>> next;
  };

  static std::int32_t child(const Node& node, unsigned char byte) noexcept;

  std::vector<Node> nodes_;
  std::array<bool, 256> first_{}; ///< Bytes that begin a token.
};

} // namespace troupe::text
