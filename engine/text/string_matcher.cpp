#include "engine/text/string_matcher.hpp"

namespace troupe::text {

StringMatcher::StringMatcher(std::string_view pattern)
    : pattern_(pattern), border_(pattern.size() + 1, 0) {
  for (std::size_t i = 1; i < pattern_.size(); ++i) {
    std::size_t border = border_[i];
    while (border > 0 && pattern_[border] != pattern_[i])
      border = border_[border];
    border_[i + 1] = pattern_[border] == pattern_[i] ? border + 1 : 0;
  }
}

bool StringMatcher::step(char byte) noexcept {
  while (held_ > 0 && pattern_[held_] != byte)
    held_ = border_[held_];
  if (pattern_[held_] == byte) ++held_;
  if (held_ < pattern_.size()) return false;
  held_ = border_[held_];
  return true;
}

} // namespace troupe::text
