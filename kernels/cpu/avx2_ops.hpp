// The ops that have an AVX2 version.

#pragma once

#include "kernels/ops.hpp"

#include <cstdint>

namespace troupe::kernels::avx2 {

void gemm(MatrixView<const float> x, const PackedMatrix& w, PanelRange panels,
          MatrixView<float> out);
void gemm_wide(MatrixView<const float> x, const PackedMatrix& w, PanelRange panels,
               MatrixView<float> out);
void attention(const AttentionArgs& args);
void index_scores(const IndexScoreArgs& args);
void rms_norm(const float* x, const float* weight, float eps, std::int64_t cols, float* out);
float rms_scale(const float* x, float eps, std::int64_t cols);
void sim_fp8(const float* x, std::int64_t n, float* out);
void unpack_fp8(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t n, float* x);
void unpack_fp4(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t n, float* x);
void unpack_fp4_e4m3(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t n,
                     float* x);
void swiglu(const float* gate, const float* up, float limit, float weight, std::int64_t cols,
            float* out);
void collapse(const float* streams, const float* mix, std::int64_t hc, std::int64_t cols, float* u);
void expand(const float* o, const float* post, const float* mixing, std::int64_t hc,
            std::int64_t cols, float* streams);
void site_project(MatrixView<const float> x, const PackedMatrix& fn, float eps, double* out);

} // namespace troupe::kernels::avx2
