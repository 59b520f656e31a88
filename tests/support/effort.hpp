// How often a test repeats: a step costs ten times as much under the sanitizers, which look at
// paths, not at how often one is taken.

#pragma once

#include <cstdint>

namespace troupe::test {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif
#else
inline constexpr bool kIsSanitized = false;
#endif

/// `full` times, or a tenth of it under the sanitizers, at least once.
template <class T>
constexpr T times(T full) {
  return kIsSanitized ? static_cast<T>((full + 9) / 10) : full;
}

} // namespace troupe::test
