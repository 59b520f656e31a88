// Scalar hyper-connections: site formulas, collapse and expand.
//
// The Sinkhorn loop runs on eight tokens side by side; a token's numbers never meet another's.

#include "kernels/cpu/scalar_ops.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::kernels::scalar {

namespace {

constexpr std::int64_t kHcMax = 8;
constexpr std::int64_t kLanes = 8;

using Lanes = float[kLanes];

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

/// Softmax over targets of one token's raw mixing matrix, with the epsilon, into lane `lane`.
void softmax_rows(const HyperArgs& a, std::int64_t row, std::int64_t lane,
                  Lanes (&c)[kHcMax][kHcMax]) {
  const float* raw = a.raw + row * (2 + a.hc) * a.hc + 2 * a.hc;
  for (std::int64_t j = 0; j < a.hc; ++j) {
    float value[kHcMax];
    float top = -INFINITY;
    for (std::int64_t k = 0; k < a.hc; ++k) {
      const std::int64_t at = j * a.hc + k;
      value[k] = raw[at] * a.rms[row] * a.scale[2] + a.base[2 * a.hc + at];
      top = std::max(top, value[k]);
    }
    float sum = 0.0F;
    for (std::int64_t k = 0; k < a.hc; ++k) {
      value[k] = std::exp(value[k] - top);
      sum += value[k];
    }
    for (std::int64_t k = 0; k < a.hc; ++k)
      c[j][k][lane] = value[k] / sum + a.eps;
  }
}

void normalise_columns(Lanes (&c)[kHcMax][kHcMax], std::int64_t hc, float eps) {
  for (std::int64_t k = 0; k < hc; ++k) {
    Lanes sum = {};
    for (std::int64_t j = 0; j < hc; ++j) {
      for (std::int64_t l = 0; l < kLanes; ++l)
        sum[l] += c[j][k][l];
    }
    for (std::int64_t l = 0; l < kLanes; ++l)
      sum[l] = 1.0F / (sum[l] + eps);
    for (std::int64_t j = 0; j < hc; ++j) {
      for (std::int64_t l = 0; l < kLanes; ++l)
        c[j][k][l] *= sum[l];
    }
  }
}

void normalise_rows(Lanes (&c)[kHcMax][kHcMax], std::int64_t hc, float eps) {
  for (std::int64_t j = 0; j < hc; ++j) {
    Lanes sum = {};
    for (std::int64_t k = 0; k < hc; ++k) {
      for (std::int64_t l = 0; l < kLanes; ++l)
        sum[l] += c[j][k][l];
    }
    for (std::int64_t l = 0; l < kLanes; ++l)
      sum[l] = 1.0F / (sum[l] + eps);
    for (std::int64_t k = 0; k < hc; ++k) {
      for (std::int64_t l = 0; l < kLanes; ++l)
        c[j][k][l] *= sum[l];
    }
  }
}

} // namespace

void hyper(const HyperArgs& a) {
  const std::int64_t width = (2 + a.hc) * a.hc;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const float* raw = a.raw + row * width;
    for (std::int64_t k = 0; k < a.hc; ++k) {
      a.pre[row * a.hc + k] = sigmoid(raw[k] * a.rms[row] * a.scale[0] + a.base[k]) + a.eps;
      a.post[row * a.hc + k] =
          2.0F * sigmoid(raw[a.hc + k] * a.rms[row] * a.scale[1] + a.base[a.hc + k]);
    }
  }
  for (std::int64_t first = 0; first < a.rows; first += kLanes) {
    const std::int64_t count = std::min(kLanes, a.rows - first);
    Lanes c[kHcMax][kHcMax];
    for (auto& source : c) {
      for (auto& target : source)
        std::fill_n(target, kLanes, 1.0F);
    }
    for (std::int64_t l = 0; l < count; ++l)
      softmax_rows(a, first + l, l, c);
    normalise_columns(c, a.hc, a.eps);
    for (std::int64_t i = 1; i < a.iterations; ++i) {
      normalise_rows(c, a.hc, a.eps);
      normalise_columns(c, a.hc, a.eps);
    }
    for (std::int64_t l = 0; l < count; ++l) {
      float* mixing = a.mixing + (first + l) * a.hc * a.hc;
      for (std::int64_t at = 0; at < a.hc * a.hc; ++at) {
        mixing[at] = c[at / a.hc][at % a.hc][l];
      }
    }
  }
}

void collapse(const float* streams, const float* mix, std::int64_t hc, std::int64_t cols,
              float* u) {
  for (std::int64_t c = 0; c < cols; ++c)
    u[c] = mix[0] * streams[c];
  for (std::int64_t k = 1; k < hc; ++k) {
    const float* stream = streams + k * cols;
    for (std::int64_t c = 0; c < cols; ++c)
      u[c] += mix[k] * stream[c];
  }
}

void expand(const float* o, const float* post, const float* mixing, std::int64_t hc,
            std::int64_t cols, float* streams) {
  for (std::int64_t c = 0; c < cols; ++c) {
    float old[kHcMax];
    for (std::int64_t j = 0; j < hc; ++j)
      old[j] = streams[j * cols + c];
    for (std::int64_t k = 0; k < hc; ++k) {
      float sum = post[k] * o[c];
      for (std::int64_t j = 0; j < hc; ++j)
        sum += mixing[j * hc + k] * old[j];
      streams[k * cols + c] = sum;
    }
  }
}

} // namespace troupe::kernels::scalar
