// The scalar table and the choice of a path by CPU feature bits.

#include "kernels/op_table.hpp"

#include "kernels/cpu/scalar_ops.hpp"
#include "kernels/lowbit.hpp"

namespace troupe::kernels {

namespace scalar {
const OpTable kOps = {
    .path = "scalar",
    .gemm = gemm,
    .gemm_wide = gemm_wide,
    .attention = attention,
    .index_scores = index_scores,
    .rms_norm = rms_norm,
    .rms_scale = rms_scale,
    .sim_fp8 = sim_fp8,
    .unpack_fp8 = unpack_fp8,
    .unpack_fp4 = unpack_fp4,
    .unpack_fp4_e4m3 = unpack_fp4_e4m3,
    .swiglu = swiglu,
    .collapse = collapse,
    .expand = expand,
    .site_project = site_project,
    .hyper = hyper,
    .rope = rope,
    .engram = engram,
};
} // namespace scalar

namespace {

bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
#else
  return false;
#endif
}

} // namespace

const OpTable* cpu_ops(CpuPath path) noexcept {
  switch (path) {
  case CpuPath::scalar:
    return &scalar::kOps;
  case CpuPath::avx2:
#if defined(__x86_64__)
    return has_avx2() ? &avx2::kOps : nullptr;
#else
    return nullptr;
#endif
  }
  return nullptr;
}

CpuPath best_cpu_path() noexcept { return has_avx2() ? CpuPath::avx2 : CpuPath::scalar; }

} // namespace troupe::kernels
