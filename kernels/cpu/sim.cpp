// Scalar round trip of activations through e4m3.

#include "kernels/cpu/scalar_ops.hpp"
#include "kernels/lowbit.hpp"

namespace troupe::kernels::scalar {

void sim_fp8(const float* x, std::int64_t n, float* out) {
  for (std::int64_t b = 0; b < n; b += kScaleBlock) {
    std::uint8_t codes[kScaleBlock];
    std::uint8_t scale = 0;
    pack_fp8(x + b, kScaleBlock, codes, &scale);
    unpack_fp8(codes, &scale, kScaleBlock, out + b);
  }
}

} // namespace troupe::kernels::scalar
