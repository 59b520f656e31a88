// Scalar RMS norms. The mean is taken over sixteen partial sums in a fixed tree.

#include "kernels/cpu/scalar_ops.hpp"

#include <cmath>

namespace troupe::kernels::scalar {

float rms_scale(const float* x, float eps, std::int64_t cols) {
  float part[16] = {};
  std::int64_t i = 0;
  for (; i + 16 <= cols; i += 16) {
    for (std::int64_t lane = 0; lane < 16; ++lane)
      part[lane] += x[i + lane] * x[i + lane];
  }
  for (; i < cols; ++i)
    part[i % 16] += x[i] * x[i];
  for (std::int64_t half = 8; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane)
      part[lane] += part[lane + half];
  }
  return 1.0F / std::sqrt(part[0] / static_cast<float>(cols) + eps);
}

void rms_norm(const float* x, const float* weight, float eps, std::int64_t cols, float* out) {
  const float scale = rms_scale(x, eps, cols);
  for (std::int64_t i = 0; i < cols; ++i)
    out[i] = weight[i] * x[i] * scale;
}

} // namespace troupe::kernels::scalar
