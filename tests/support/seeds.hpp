// The seeds of a simulated test: those of TROUPE_SEEDS=A..B, else the test's own.

#pragma once

#include <cstdint>
#include <cstdlib>

namespace troupe::test {

struct Seeds {
  std::uint64_t first = 1;
  std::uint64_t last = 1;
  bool are_given = false; ///< By the environment: totals of the fixed seeds do not hold.
};

inline Seeds seeds_or(std::uint64_t first, std::uint64_t last) {
  const char* text = std::getenv("TROUPE_SEEDS");
  if (text == nullptr) return {first, last, false};
  char* rest = nullptr;
  Seeds out{std::strtoull(text, &rest, 10), 0, true};
  out.last = rest[0] == '.' && rest[1] == '.' ? std::strtoull(rest + 2, nullptr, 10) : out.first;
  return out;
}

} // namespace troupe::test
