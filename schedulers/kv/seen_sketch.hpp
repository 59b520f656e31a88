// How often a prefix came by lately, in fixed memory: what tells traffic that comes once from
// traffic that comes again.

#pragma once

#include "schedulers/core/rng.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::sched {

/// Counts by name that are never too low within a window, and rarely too high.
///
///   Cost   O(1) a call, and 4·2^width_log2 bytes halved once a window
///
/// Source: policies.md section 7.2; count-min sketch with the aging of TinyLFU.
class SeenSketch {
public:
  /// @param width_log2  of each of the four rows. Default 65,536 counters: good for a few ten
  ///                    thousand names a window  @param window  calls after which counts are halved
  explicit SeenSketch(int width_log2 = 16, std::int64_t window = 1 << 16)
      : mask_((std::uint64_t{1} << width_log2) - 1), window_(window),
        counts_(kRows << width_log2, 0) {}

  /// Counts one appearance of `name`; how many there were, this one included, up to kMost.
  std::int64_t add(std::uint64_t name) {
    if (++added_ > window_) age();
    std::int64_t least = kMost;
    for (std::uint64_t row = 0; row < kRows; ++row) {
      std::uint8_t& count =
          counts_[static_cast<std::size_t>(row * (mask_ + 1) + (mix64(name ^ mix64(row)) & mask_))];
      if (count < kMost) ++count;
      least = std::min<std::int64_t>(least, count);
    }
    return least;
  }

  static constexpr std::uint8_t kMost = 255;

private:
  static constexpr std::uint64_t kRows = 4;

  void age() {
    for (std::uint8_t& count : counts_)
      count /= 2;
    added_ = 1;
  }

  std::uint64_t mask_;
  std::int64_t window_;
  std::int64_t added_ = 0;
  std::vector<std::uint8_t> counts_;
};

} // namespace troupe::sched
