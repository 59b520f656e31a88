// Scalar activations of the experts.

#include "kernels/cpu/scalar_ops.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::kernels::scalar {

void swiglu(const float* gate, const float* up, float limit, float weight, std::int64_t cols,
            float* out) {
  for (std::int64_t i = 0; i < cols; ++i) {
    const float g = std::min(gate[i], limit);
    const float u = std::clamp(up[i], -limit, limit);
    out[i] = weight * (g / (1.0F + std::exp(-g)) * u);
  }
}

} // namespace troupe::kernels::scalar
