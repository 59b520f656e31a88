// Reproducible inputs and comparisons for the op tests.

#pragma once

#include "kernels/op_table.hpp"
#include "schedulers/core/rng.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace troupe::test {

/// Floats in (-1, 1) with a few large ones, as activations have.
inline std::vector<float> activations(Rng& rng, std::int64_t n) {
  std::vector<float> out(static_cast<std::size_t>(n));
  for (float& value : out) {
    value = static_cast<float>(static_cast<double>(rng.below(2'000'001)) / 1e6 - 1.0);
    if (rng.below(50) == 0) value *= 40.0F;
  }
  return out;
}

/// The paths that this machine can run.
inline std::vector<const kernels::OpTable*> op_tables() {
  std::vector<const kernels::OpTable*> out;
  for (const kernels::CpuPath path : {kernels::CpuPath::scalar, kernels::CpuPath::avx2}) {
    if (const kernels::OpTable* table = kernels::cpu_ops(path)) out.push_back(table);
  }
  return out;
}

/// Largest difference over the largest expected magnitude.
inline double relative_error(const std::vector<float>& got, const std::vector<double>& want) {
  double largest = 1e-30;
  double gap = 0.0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::fabs(want[i]));
    gap = std::max(gap, std::fabs(double{got[i]} - want[i]));
  }
  return gap / largest;
}

} // namespace troupe::test
