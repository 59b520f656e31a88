// The ops of one CPU path as a table of function pointers, chosen at run time by feature bits.
//
// A path that has no version of its own for an op carries the scalar one. A wider path is one more
// table with the same signatures.

#pragma once

#include "kernels/ops.hpp"

#include <cstdint>
#include <string_view>

namespace troupe::kernels {

enum class CpuPath : std::uint8_t { scalar, avx2 };

struct OpTable {
  std::string_view path; ///< Name of the path, as configured and reported.
  GemmOp gemm = nullptr;
  GemmWideOp gemm_wide = nullptr;
  AttentionOp attention = nullptr;
  IndexScoreOp index_scores = nullptr;
  RmsNormOp rms_norm = nullptr;
  RmsScaleOp rms_scale = nullptr;
  SimFp8Op sim_fp8 = nullptr;
  UnpackOp unpack_fp8 = nullptr;
  UnpackOp unpack_fp4 = nullptr;
  UnpackOp unpack_fp4_e4m3 = nullptr;
  SwigluOp swiglu = nullptr;
  CollapseOp collapse = nullptr;
  ExpandOp expand = nullptr;
  SiteProjectOp site_project = nullptr;
  HyperOp hyper = nullptr;
  RopeOp rope = nullptr;
  EngramOp engram = nullptr;
};

/// The table of a path, or null when this CPU lacks its instructions. Thread-safe.
const OpTable* cpu_ops(CpuPath path) noexcept;

/// The widest path that this CPU can run.
CpuPath best_cpu_path() noexcept;

namespace scalar {
extern const OpTable kOps; ///< The definition of right.
} // namespace scalar

namespace avx2 {
extern const OpTable kOps; ///< Needs AVX2 and FMA; call through cpu_ops().
} // namespace avx2

} // namespace troupe::kernels
