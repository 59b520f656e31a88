// Frequencies of the rotary embedding.

#include "engine/model/weights.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace troupe::engine {

RopeFrequencies rope_frequencies(std::int64_t dims, double theta, const YarnConfig* yarn) {
  double low = 0.0;
  double high = 0.0;
  if (yarn != nullptr) {
    const auto width = static_cast<double>(dims);
    const auto pair_with_rotations = [&](double rotations) {
      const double context = static_cast<double>(yarn->original_context);
      return width * std::log(context / (2.0 * std::numbers::pi * rotations)) /
             (2.0 * std::log(theta));
    };
    low = std::max(std::floor(pair_with_rotations(yarn->beta_fast)), 0.0);
    high = std::min(std::ceil(pair_with_rotations(yarn->beta_slow)), width - 1.0);
  }
  RopeFrequencies out(static_cast<std::size_t>(dims / 2));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto index = static_cast<double>(i);
    double f = std::pow(theta, -2.0 * index / static_cast<double>(dims));
    if (yarn != nullptr) {
      const double ramp = std::clamp((index - low) / std::max(high - low, 1e-3), 0.0, 1.0);
      f = f / yarn->factor * ramp + f * (1.0 - ramp);
    }
    out[i] = static_cast<float>(f);
  }
  return out;
}

} // namespace troupe::engine
