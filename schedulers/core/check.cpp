#include "schedulers/core/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace troupe::detail {

void check_failed(const char* file, int line, const char* expression, const char* text) noexcept {
  std::fprintf(stderr, "troupe: bug: %s:%d: %s is false: %s\n", file, line, expression, text);
  std::abort();
}

} // namespace troupe::detail
