// A hash of text that is the same on every compiler, run and machine.

#pragma once

#include "schedulers/core/rng.hpp"

#include <cstdint>
#include <string_view>

namespace troupe {

/// 64 bits for `text`: FNV-1a, then mixed. Not against an adversary. Pure.
constexpr std::uint64_t hash64(std::string_view text) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  }
  return mix64(hash);
}

} // namespace troupe
