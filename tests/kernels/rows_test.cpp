// Row ops against their formulas in double: norms, SwiGLU, hyper-connections, rope, Engram.

#include "kernels/pack.hpp"
#include "tests/kernels/support.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace {

using namespace troupe::kernels;
using troupe::Rng;
using troupe::test::activations;
using troupe::test::relative_error;

double at(const std::vector<float>& values, std::int64_t i) {
  return values[static_cast<std::size_t>(i)];
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

TEST(Rows, RmsNorm) {
  for (const std::int64_t cols : {8, 20, 64, 257, 1024}) {
    Rng rng(static_cast<std::uint64_t>(cols));
    const std::vector<float> x = activations(rng, cols);
    const std::vector<float> weight = activations(rng, cols);
    double squares = 0;
    for (const float v : x)
      squares += double{v} * double{v};
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(cols) + 1e-6);
    std::vector<double> want;
    for (std::int64_t i = 0; i < cols; ++i)
      want.push_back(at(weight, i) * at(x, i) * scale);
    for (const OpTable* ops : troupe::test::op_tables()) {
      std::vector<float> got = x;
      ops->rms_norm(got.data(), weight.data(), 1e-6F, cols, got.data());
      EXPECT_LT(relative_error(got, want), 3e-7) << ops->path << " " << cols;
      EXPECT_NEAR(ops->rms_scale(x.data(), 1e-6F, cols), scale, scale * 1e-7);
    }
  }
}

TEST(Rows, NormOfZerosIsZero) {
  for (const OpTable* ops : troupe::test::op_tables()) {
    std::vector<float> x(64, 0.0F), weight(64, 1.0F), out(64, 1.0F);
    ops->rms_norm(x.data(), weight.data(), 1e-20F, 64, out.data());
    EXPECT_EQ(out, x) << ops->path;
  }
}

TEST(Rows, SwigluClampsBothSides) {
  for (const std::int64_t cols : {1, 7, 8, 64, 100}) {
    Rng rng(static_cast<std::uint64_t>(cols));
    std::vector<float> gate = activations(rng, cols);
    std::vector<float> up = activations(rng, cols);
    gate[0] = 200.0F;
    up[static_cast<std::size_t>(cols - 1)] = -70.0F;
    std::vector<double> want;
    for (std::int64_t i = 0; i < cols; ++i) {
      const double g = std::min(at(gate, i), 10.0);
      want.push_back(0.7F * g * sigmoid(g) * std::clamp(at(up, i), -10.0, 10.0));
    }
    for (const OpTable* ops : troupe::test::op_tables()) {
      std::vector<float> got(want.size());
      ops->swiglu(gate.data(), up.data(), 10.0F, 0.7F, cols, got.data());
      EXPECT_LT(relative_error(got, want), 5e-7) << ops->path << " " << cols;
      gate[0] = -1000.0F; // e^1000 overflows; the product is still 0
      ops->swiglu(gate.data(), up.data(), 10.0F, 0.7F, cols, got.data());
      EXPECT_NEAR(got[0], 0.0, 1e-30) << ops->path;
      gate[0] = 200.0F;
    }
  }
}

TEST(Rows, CollapseAndExpand) {
  for (const std::int64_t hc : {1, 2, 4, 8}) {
    for (const std::int64_t cols : {8, 12, 33, 256}) {
      Rng rng(static_cast<std::uint64_t>(hc * 1000 + cols));
      const std::vector<float> streams = activations(rng, hc * cols);
      const std::vector<float> mix = activations(rng, hc);
      const std::vector<float> mixing = activations(rng, hc * hc);
      const std::vector<float> o = activations(rng, cols);
      std::vector<double> u(static_cast<std::size_t>(cols));
      std::vector<double> next(static_cast<std::size_t>(hc * cols));
      for (std::int64_t c = 0; c < cols; ++c) {
        for (std::int64_t k = 0; k < hc; ++k) {
          u[static_cast<std::size_t>(c)] += at(mix, k) * at(streams, k * cols + c);
          double sum = at(mix, k) * at(o, c);
          for (std::int64_t j = 0; j < hc; ++j) {
            sum += at(mixing, j * hc + k) * at(streams, j * cols + c);
          }
          next[static_cast<std::size_t>(k * cols + c)] = sum;
        }
      }
      for (const OpTable* ops : troupe::test::op_tables()) {
        std::vector<float> got_u(u.size()), got = streams;
        ops->collapse(streams.data(), mix.data(), hc, cols, got_u.data());
        ops->expand(o.data(), mix.data(), mixing.data(), hc, cols, got.data());
        EXPECT_LT(relative_error(got_u, u), 7e-8) << ops->path << " " << hc << " " << cols;
        EXPECT_LT(relative_error(got, next), 7e-8) << ops->path << " " << hc << " " << cols;
      }
    }
  }
}

/// The formulas of one site as they stand in the paper, on a plain matrix.
std::vector<double> site_of(const std::vector<double>& m, std::int64_t hc,
                            const std::vector<float>& scale, const std::vector<float>& base) {
  constexpr double kEps = 1e-6;
  std::vector<double> out;
  for (std::int64_t k = 0; k < hc; ++k) {
    out.push_back(sigmoid(m[static_cast<std::size_t>(k)] * at(scale, 0) + at(base, k)) + kEps);
  }
  for (std::int64_t k = hc; k < 2 * hc; ++k) {
    out.push_back(2 * sigmoid(m[static_cast<std::size_t>(k)] * at(scale, 1) + at(base, k)));
  }
  std::vector<std::vector<double>> c(static_cast<std::size_t>(hc));
  for (std::int64_t j = 0; j < hc; ++j) {
    double sum = 0;
    auto& row = c[static_cast<std::size_t>(j)];
    for (std::int64_t k = 0; k < hc; ++k) {
      const std::int64_t i = 2 * hc + j * hc + k;
      row.push_back(std::exp(m[static_cast<std::size_t>(i)] * at(scale, 2) + at(base, i)));
      sum += row.back();
    }
    for (double& v : row)
      v = v / sum + kEps;
  }
  const auto columns = [&] {
    for (std::size_t k = 0; k < c.size(); ++k) {
      double sum = kEps;
      for (const auto& row : c)
        sum += row[k];
      for (auto& row : c)
        row[k] /= sum;
    }
  };
  columns();
  for (int i = 1; i < 20; ++i) {
    for (auto& row : c) {
      double sum = kEps;
      for (const double v : row)
        sum += v;
      for (double& v : row)
        v /= sum;
    }
    columns();
  }
  for (const auto& row : c)
    out.insert(out.end(), row.begin(), row.end());
  return out;
}

TEST(Rows, HyperConnectionSites) {
  for (const std::int64_t hc : {2, 4}) {
    for (const std::int64_t rows : {1, 2, 3, 5, 9}) {
      const std::int64_t inputs = hc * 96;
      const std::int64_t width = (2 + hc) * hc;
      Rng rng(static_cast<std::uint64_t>(hc * 100 + rows));
      const std::vector<float> x = activations(rng, rows * inputs);
      const std::vector<float> fn = activations(rng, width * inputs);
      const std::vector<float> base = activations(rng, width);
      const std::vector<float> scale = {0.5F, 1.5F, 0.25F};
      std::vector<std::byte> packed(
          static_cast<std::size_t>(packed_value_bytes(WeightFormat::f32, width, inputs)) + 64);
      const auto address = reinterpret_cast<std::uintptr_t>(packed.data());
      const StoredMatrix stored{.outputs = width,
                                .inputs = inputs,
                                .values = reinterpret_cast<const std::byte*>(fn.data())};
      const PackedMatrix matrix =
          pack(stored, 0, width, packed.data() + (64 - address % 64) % 64, nullptr);
      for (const OpTable* ops : troupe::test::op_tables()) {
        std::vector<double> raw(static_cast<std::size_t>(rows * width));
        ops->site_project({x.data(), rows, inputs, inputs}, matrix, 1e-20F, raw.data());
        std::vector<float> pre(static_cast<std::size_t>(rows * hc)), post(pre.size());
        std::vector<float> mixing(static_cast<std::size_t>(rows * hc * hc));
        HyperArgs args;
        args.raw = raw.data();
        args.scale = scale.data();
        args.base = base.data();
        args.pre = pre.data();
        args.post = post.data();
        args.mixing = mixing.data();
        args.rows = rows;
        args.hc = hc;
        args.iterations = 20;
        args.eps = 1e-6;
        ops->hyper(args);
        for (std::int64_t r = 0; r < rows; ++r) {
          double squares = 0;
          for (std::int64_t i = 0; i < inputs; ++i)
            squares += std::pow(at(x, r * inputs + i), 2);
          std::vector<double> m;
          for (std::int64_t o = 0; o < width; ++o) {
            double sum = 0;
            for (std::int64_t i = 0; i < inputs; ++i) {
              sum += at(x, r * inputs + i) * at(fn, o * inputs + i);
            }
            m.push_back(sum / std::sqrt(squares / static_cast<double>(inputs) + 1e-20));
          }
          std::vector<float> got(pre.begin() + r * hc, pre.begin() + (r + 1) * hc);
          got.insert(got.end(), post.begin() + r * hc, post.begin() + (r + 1) * hc);
          got.insert(got.end(), mixing.begin() + r * hc * hc, mixing.begin() + (r + 1) * hc * hc);
          EXPECT_LT(relative_error(got, site_of(m, hc, scale, base)), 1e-7)
              << ops->path << " hc " << hc << " row " << r << " of " << rows;
        }
      }
    }
  }
}

TEST(Rows, SiteProjectionIgnoresCuts) {
  constexpr std::int64_t kInputs = 4 * 160;
  Rng rng(21);
  const std::vector<float> x = activations(rng, 7 * kInputs);
  const std::vector<float> fn = activations(rng, 24 * kInputs);
  std::vector<std::byte> packed(
      static_cast<std::size_t>(packed_value_bytes(WeightFormat::f32, 24, kInputs)) + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(packed.data());
  const StoredMatrix stored{
      .outputs = 24, .inputs = kInputs, .values = reinterpret_cast<const std::byte*>(fn.data())};
  const PackedMatrix matrix =
      pack(stored, 0, 24, packed.data() + (64 - address % 64) % 64, nullptr);
  for (const OpTable* ops : troupe::test::op_tables()) {
    std::vector<double> whole(7 * 24), alone(7 * 24);
    ops->site_project({x.data(), 7, kInputs, kInputs}, matrix, 1e-20F, whole.data());
    for (std::int64_t r = 0; r < 7; ++r) {
      ops->site_project({x.data() + r * kInputs, 1, kInputs, kInputs}, matrix, 1e-20F,
                        alone.data() + r * 24);
    }
    EXPECT_EQ(whole, alone) << ops->path;
  }
}

TEST(Rows, RopeTurnsTrailingPairs) {
  for (const OpTable* ops : troupe::test::op_tables()) {
    std::vector<float> x = {9, 9, 1, 2, 3, 4, 9, 9, 5, 6, 7, 8};
    const std::vector<float> cos = {0.0F, 0.5F};
    const std::vector<float> sin = {1.0F, 2.0F};
    ops->rope({x.data(), 2, 6, 6}, cos.data(), sin.data(), 2);
    const std::vector<float> want = {9, 9, -2, 1, -6.5F, 8, 9, 9, -6, 5, -12.5F, 18};
    EXPECT_EQ(x, want) << ops->path;
  }
}

TEST(Rows, EngramGate) {
  constexpr std::int64_t kHc = 4;
  constexpr std::int64_t kCols = 96;
  Rng rng(31);
  const std::vector<float> streams = activations(rng, kHc * kCols);
  const std::vector<float> qk = activations(rng, kHc * kCols);
  std::vector<float> kv = activations(rng, (kHc + 1) * kCols);
  std::fill_n(kv.begin(), kCols, 0.0F); // g = 0: the gate is sigmoid(+1e-3)
  std::vector<double> want;
  for (std::int64_t k = 0; k < kHc; ++k) {
    double g = 0, xs = 0, ks = 0;
    for (std::int64_t c = k * kCols; c < (k + 1) * kCols; ++c) {
      g += at(streams, c) * at(qk, c) * at(kv, c);
      xs += at(streams, c) * at(streams, c);
      ks += at(kv, c) * at(kv, c);
    }
    g /= std::sqrt(xs / kCols + 1e-20) * std::sqrt(ks / kCols + 1e-20) * std::sqrt(kCols);
    const double gate = sigmoid(std::copysign(std::sqrt(std::max(std::fabs(g), 1e-6)), g));
    for (std::int64_t c = 0; c < kCols; ++c) {
      want.push_back(at(streams, k * kCols + c) + gate * at(kv, kHc * kCols + c));
    }
  }
  for (const OpTable* ops : troupe::test::op_tables()) {
    std::vector<float> got = streams;
    ops->engram(got.data(), qk.data(), kv.data(), 1e-20F, kHc, kCols);
    EXPECT_LT(relative_error(got, want), 3e-7) << ops->path;
  }
}

TEST(OpTable, NamesItsPath) {
  EXPECT_EQ(cpu_ops(CpuPath::scalar)->path, "scalar");
  EXPECT_NE(cpu_ops(best_cpu_path()), nullptr);
}

} // namespace
