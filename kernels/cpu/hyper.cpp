// Scalar hyper-connections: site formulas, collapse and expand.
//
// Sites run in double and are rounded once. The Sinkhorn loop runs on four tokens side by side; a
// token's numbers never meet another's.

#include "kernels/cpu/scalar_ops.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::kernels::scalar {

namespace {

constexpr std::int64_t kHcMax = 8;
constexpr std::int64_t kLanes = 4;
constexpr std::int64_t kSitePanels = 6; ///< Of the widest site: (2 + 8) * 8 outputs, and some room.

using Lanes = double[kLanes];

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// Some tokens' matrices as c[j][k] = row[j] a[j][k] column[k]. Only the two scalings change, so
/// rounding does not pile up in the entries over the iterations.
struct Scaled {
  Lanes a[kHcMax][kHcMax];
  Lanes row[kHcMax];
  Lanes column[kHcMax];
};

/// Softmax over targets of one token's raw mixing matrix, with the epsilon, into lane `lane`.
void softmax_rows(const HyperArgs& a, std::int64_t row, std::int64_t lane, Scaled& m) {
  const double* raw = a.raw + row * (2 + a.hc) * a.hc + 2 * a.hc;
  for (std::int64_t j = 0; j < a.hc; ++j) {
    double value[kHcMax];
    double top = -INFINITY;
    for (std::int64_t k = 0; k < a.hc; ++k) {
      const std::int64_t at = j * a.hc + k;
      value[k] = raw[at] * a.scale[2] + a.base[2 * a.hc + at];
      top = std::max(top, value[k]);
    }
    double sum = 0.0;
    for (std::int64_t k = 0; k < a.hc; ++k) {
      value[k] = std::exp(value[k] - top);
      sum += value[k];
    }
    for (std::int64_t k = 0; k < a.hc; ++k)
      m.a[j][k][lane] = value[k] / sum + a.eps;
  }
}

void normalise_columns(Scaled& m, std::int64_t hc, double eps) {
  for (std::int64_t k = 0; k < hc; ++k) {
    Lanes sum = {};
    for (std::int64_t j = 0; j < hc; ++j) {
      for (std::int64_t l = 0; l < kLanes; ++l)
        sum[l] += m.row[j][l] * m.a[j][k][l];
    }
    for (std::int64_t l = 0; l < kLanes; ++l) {
      m.column[k][l] = m.column[k][l] / (m.column[k][l] * sum[l] + eps);
    }
  }
}

void normalise_rows(Scaled& m, std::int64_t hc, double eps) {
  for (std::int64_t j = 0; j < hc; ++j) {
    Lanes sum = {};
    for (std::int64_t k = 0; k < hc; ++k) {
      for (std::int64_t l = 0; l < kLanes; ++l)
        sum[l] += m.column[k][l] * m.a[j][k][l];
    }
    for (std::int64_t l = 0; l < kLanes; ++l) {
      m.row[j][l] = m.row[j][l] / (m.row[j][l] * sum[l] + eps);
    }
  }
}

/// Mixing matrices of up to kLanes tokens from `first` on.
void sinkhorn(const HyperArgs& a, std::int64_t first, std::int64_t count) {
  Scaled m;
  for (std::int64_t k = 0; k < kHcMax; ++k) {
    std::fill_n(m.row[k], kLanes, 1.0);
    std::fill_n(m.column[k], kLanes, 1.0);
    for (auto& entry : m.a[k])
      std::fill_n(entry, kLanes, 1.0);
  }
  for (std::int64_t l = 0; l < count; ++l)
    softmax_rows(a, first + l, l, m);
  normalise_columns(m, a.hc, a.eps);
  for (std::int64_t i = 1; i < a.iterations; ++i) {
    normalise_rows(m, a.hc, a.eps);
    normalise_columns(m, a.hc, a.eps);
  }
  for (std::int64_t l = 0; l < count; ++l) {
    float* mixing = a.mixing + (first + l) * a.hc * a.hc;
    for (std::int64_t j = 0; j < a.hc; ++j) {
      for (std::int64_t k = 0; k < a.hc; ++k) {
        mixing[j * a.hc + k] = static_cast<float>(m.row[j][l] * m.a[j][k][l] * m.column[k][l]);
      }
    }
  }
}

} // namespace

void site_project(MatrixView<const float> x, const PackedMatrix& fn, float eps, double* out) {
  const auto* values = static_cast<const float*>(fn.values);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const float* row = x.row(r);
    double sum[kSitePanels * kPanelRows] = {};
    double squares = 0.0;
    for (std::int64_t k = 0; k < fn.inputs; ++k) {
      const double value = row[k];
      squares += value * value;
      for (std::int64_t p = 0; p < fn.panels(); ++p) {
        const float* w = values + (p * fn.inputs + k) * kPanelRows;
        for (std::int64_t lane = 0; lane < kPanelRows; ++lane) {
          sum[p * kPanelRows + lane] += value * double{w[lane]};
        }
      }
    }
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(fn.inputs) + double{eps});
    for (std::int64_t i = 0; i < fn.outputs; ++i)
      out[r * fn.outputs + i] = sum[i] * scale;
  }
}

void hyper(const HyperArgs& a) {
  const std::int64_t width = (2 + a.hc) * a.hc;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const double* raw = a.raw + row * width;
    for (std::int64_t k = 0; k < a.hc; ++k) {
      a.pre[row * a.hc + k] = static_cast<float>(sigmoid(raw[k] * a.scale[0] + a.base[k]) + a.eps);
      a.post[row * a.hc + k] =
          static_cast<float>(2.0 * sigmoid(raw[a.hc + k] * a.scale[1] + a.base[a.hc + k]));
    }
  }
  for (std::int64_t first = 0; first < a.rows; first += kLanes) {
    sinkhorn(a, first, std::min(kLanes, a.rows - first));
  }
}

void collapse(const float* streams, const float* mix, std::int64_t hc, std::int64_t cols,
              float* u) {
  for (std::int64_t c = 0; c < cols; ++c) {
    double sum = 0.0;
    for (std::int64_t k = 0; k < hc; ++k)
      sum += double{mix[k]} * double{streams[k * cols + c]};
    u[c] = static_cast<float>(sum);
  }
}

void expand(const float* o, const float* post, const float* mixing, std::int64_t hc,
            std::int64_t cols, float* streams) {
  for (std::int64_t c = 0; c < cols; ++c) {
    double old[kHcMax];
    for (std::int64_t j = 0; j < hc; ++j)
      old[j] = double{streams[j * cols + c]};
    for (std::int64_t k = 0; k < hc; ++k) {
      double sum = double{post[k]} * double{o[c]};
      for (std::int64_t j = 0; j < hc; ++j)
        sum += double{mixing[j * hc + k]} * old[j];
      streams[k * cols + c] = static_cast<float>(sum);
    }
  }
}

} // namespace troupe::kernels::scalar
