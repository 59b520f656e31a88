#include "engine/text/added_tokens.hpp"

namespace troupe::text {

AddedTokenTrie::AddedTokenTrie() : nodes_(1) {}

std::int32_t AddedTokenTrie::child(const Node& node, unsigned char byte) noexcept {
  for (const auto& [key, index] : node.next) {
    if (key == byte) return index;
  }
  return -1;
}

void AddedTokenTrie::insert(std::string_view content, std::int32_t id) {
  first_[static_cast<unsigned char>(content.front())] = true;
  std::size_t at = 0;
  for (const char c : content) {
    const auto byte = static_cast<unsigned char>(c);
    std::int32_t next = child(nodes_[at], byte);
    if (next < 0) {
      next = static_cast<std::int32_t>(nodes_.size());
      nodes_[at].next.emplace_back(byte, next);
      nodes_.emplace_back();
    }
    at = static_cast<std::size_t>(next);
  }
  nodes_[at].id = id;
}

std::optional<AddedMatch> AddedTokenTrie::find(std::string_view text, std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!first_[static_cast<unsigned char>(text[begin])]) continue;
    std::optional<AddedMatch> longest;
    std::int32_t at = 0;
    for (std::size_t i = begin; i < text.size(); ++i) {
      at = child(nodes_[static_cast<std::size_t>(at)], static_cast<unsigned char>(text[i]));
      if (at < 0) break;
      const std::int32_t id = nodes_[static_cast<std::size_t>(at)].id;
      if (id >= 0) longest = AddedMatch{begin, i + 1 - begin, id};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

} // namespace troupe::text
