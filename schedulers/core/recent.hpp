// A short way to the values of a map that are looked for again and again: those of a running step.

#pragma once

#include "schedulers/core/ids.hpp"

#include <cstddef>
#include <vector>

namespace troupe {

/// Remembers where the value of a request lies; of two requests that meet, the later one. Owns
/// nothing: what is erased must be forgotten first.
///
///   Cost   O(1); memory as for the values that room was made for
template <class Value>
class Recent {
public:
  /// Null when it is not remembered.
  Value* find(const RequestRef& ref) const noexcept {
    const Seen& kept = seen_[place_of(ref)];
    return kept.ref == ref ? kept.value : nullptr;
  }
  void keep(const RequestRef& ref, Value* value) noexcept { seen_[place_of(ref)] = {ref, value}; }
  void forget(const RequestRef& ref) noexcept {
    if (Seen& kept = seen_[place_of(ref)]; kept.ref == ref) kept = {};
  }
  /// So many values are there now; what was remembered may be forgotten.
  void make_room(std::size_t values) {
    if (2 * values > seen_.size()) seen_.assign(4 * seen_.size(), {});
  }

private:
  struct Seen {
    RequestRef ref;
    Value* value = nullptr;
  };

  std::size_t place_of(const RequestRef& ref) const noexcept {
    return static_cast<std::size_t>(raw(ref.request)) & (seen_.size() - 1);
  }

  std::vector<Seen> seen_ = std::vector<Seen>(16); ///< A power of two.
};

} // namespace troupe
