// Scalar rotation of neighbouring channels.

#include "kernels/cpu/scalar_ops.hpp"

namespace troupe::kernels::scalar {

void rope(MatrixView<float> x, const float* cos, const float* sin, std::int64_t pairs) {
  for (std::int64_t r = 0; r < x.rows; ++r) {
    float* turn = x.row(r) + x.cols - 2 * pairs;
    for (std::int64_t i = 0; i < pairs; ++i) {
      const float a = turn[2 * i];
      const float b = turn[2 * i + 1];
      turn[2 * i] = a * cos[i] - b * sin[i];
      turn[2 * i + 1] = a * sin[i] + b * cos[i];
    }
  }
}

} // namespace troupe::kernels::scalar
