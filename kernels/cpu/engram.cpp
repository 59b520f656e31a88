// Scalar gate of the n-gram memory.

#include "kernels/cpu/scalar_ops.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::kernels::scalar {

namespace {

/// Σ x q k over eight partial sums.
float triple_dot(const float* x, const float* qk, const float* key, std::int64_t cols) {
  float part[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= cols; i += 8) {
    for (std::int64_t lane = 0; lane < 8; ++lane) {
      part[lane] += x[i + lane] * qk[i + lane] * key[i + lane];
    }
  }
  for (; i < cols; ++i)
    part[i % 8] += x[i] * qk[i] * key[i];
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

} // namespace

void engram(float* streams, const float* qk, const float* kv, float eps, std::int64_t hc,
            std::int64_t cols) {
  const float width_scale = 1.0F / std::sqrt(static_cast<float>(cols));
  const float* value = kv + hc * cols;
  for (std::int64_t k = 0; k < hc; ++k) {
    float* stream = streams + k * cols;
    const float* key = kv + k * cols;
    float g = triple_dot(stream, qk + k * cols, key, cols);
    g = g * rms_scale(stream, eps, cols) * rms_scale(key, eps, cols) * width_scale;
    // copysign and not sign(): at g = 0 the gate is sigmoid(+1e-3).
    const float root = std::copysign(std::sqrt(std::max(std::fabs(g), 1e-6F)), g);
    const float gate = 1.0F / (1.0F + std::exp(-root));
    for (std::int64_t c = 0; c < cols; ++c)
      stream[c] += gate * value[c];
  }
}

} // namespace troupe::kernels::scalar
