// Scalar RMS norms. The mean is taken in double over eight partial sums in a fixed tree.

#include "kernels/cpu/scalar_ops.hpp"

#include <cmath>

namespace troupe::kernels::scalar {

float rms_scale(const float* x, float eps, std::int64_t cols) {
  double part[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= cols; i += 8) {
    for (std::int64_t lane = 0; lane < 8; ++lane) {
      part[lane] += double{x[i + lane]} * double{x[i + lane]};
    }
  }
  for (; i < cols; ++i)
    part[i % 8] += double{x[i]} * double{x[i]};
  for (std::int64_t half = 4; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane)
      part[lane] += part[lane + half];
  }
  return static_cast<float>(1.0 / std::sqrt(part[0] / static_cast<double>(cols) + double{eps}));
}

void rms_norm(const float* x, const float* weight, float eps, std::int64_t cols, float* out) {
  const float scale = rms_scale(x, eps, cols);
  for (std::int64_t i = 0; i < cols; ++i)
    out[i] = weight[i] * x[i] * scale;
}

} // namespace troupe::kernels::scalar
