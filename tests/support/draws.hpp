// The random draws of the reference workloads of policies.md sections 2.4 and 3.3.
//
// Streams: 1 arrivals and lengths of prefill, 3 population and arrivals of decode. The order of the
// draws defines a workload; logarithms and cosines are double precision.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

namespace troupe::sched::testing {

/// SplitMix64 and the distributions over it.
class Draws {
public:
  Draws(std::uint64_t seed, std::uint64_t stream) : state_(mixed(seed * 1000 + stream)) {}

  /// In [0, 1).
  double uniform() {
    state_ += 0x9E3779B97F4A7C15ULL;
    return static_cast<double>(mixed(state_) >> 11) * 0x1p-53;
  }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(uniform() * static_cast<double>(n));
  }
  double exponential(double mean) { return -mean * std::log(1.0 - uniform()); }
  double normal() {
    constexpr double kTwoPi = 2.0 * 3.141592653589793;
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(kTwoPi * uniform());
  }
  /// Rounded half up and clipped; `mean` is the mean before clipping.
  std::int64_t lognormal(double mean, double sigma, std::int64_t low, std::int64_t high) {
    const double value = std::exp(std::log(mean) - sigma * sigma / 2 + sigma * normal());
    return std::min(high, std::max(low, static_cast<std::int64_t>(value + 0.5)));
  }

private:
  static constexpr std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

/// A mean over seeds and its standard error.
struct MeanAndError {
  double mean = 0;
  double error = 0;
};

inline MeanAndError mean_and_error(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  MeanAndError result;
  for (const double value : values)
    result.mean += value / n;
  double squares = 0;
  for (const double value : values)
    squares += (value - result.mean) * (value - result.mean);
  if (n > 1) result.error = std::sqrt(squares / (n - 1) / n);
  return result;
}

} // namespace troupe::sched::testing
