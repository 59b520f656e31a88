// Counter-based randomness: a draw is a pure function of (seed, position, purpose).
//
// A moved, resumed or re-batched request therefore continues the very same stream.
// Source: the finaliser is SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).

#pragma once

#include <cstdint>

namespace troupe {

__extension__ using Wide = unsigned __int128;

/// What a draw is for; two purposes never share a stream.
enum class Purpose : std::uint64_t {
  sampling = 1,
  policy = 2,
  null_token = 3,
  seed = 4,
  lease = 5
};

/// Mixes 64 bits; a bijection.
constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// 64 random bits for (seed, position, purpose). Pure.
constexpr std::uint64_t draw(std::uint64_t seed, std::uint64_t position, Purpose purpose) noexcept {
  return mix64(mix64(mix64(seed) ^ position) ^ static_cast<std::uint64_t>(purpose));
}

/// A sequence of draws for policies: (seed, counter). Integer draws only, equal on all compilers.
class Rng {
public:
  explicit constexpr Rng(std::uint64_t seed) noexcept : seed_(seed) {}

  constexpr std::uint64_t bits() noexcept { return draw(seed_, counter_++, Purpose::policy); }

  /// Uniform in [0, n) by multiply-shift with rejection; n > 0.
  constexpr std::uint64_t below(std::uint64_t n) noexcept {
    const std::uint64_t threshold = (0 - n) % n;
    for (;;) {
      const Wide wide = static_cast<Wide>(bits()) * n;
      if (static_cast<std::uint64_t>(wide) >= threshold) {
        return static_cast<std::uint64_t>(wide >> 64);
      }
    }
  }

private:
  std::uint64_t seed_;
  std::uint64_t counter_ = 0;
};

} // namespace troupe
