// A 128-bit content digest as two integers, so that it travels in messages and manifests.

#pragma once

#include <compare>
#include <cstdint>

namespace troupe {

/// XXH3-128 of some bytes. Whoever computes it says over what.
struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const Digest&) const = default;
};

} // namespace troupe
