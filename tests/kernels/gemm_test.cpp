// GEMMs of every format against a double sum over decoded weights; any cut gives equal bits.

#include "kernels/lowbit.hpp"
#include "kernels/pack.hpp"
#include "tests/kernels/support.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace {

using namespace troupe::kernels;
using troupe::Rng;

/// A stored weight with everything it owns.
struct Weight {
  StoredMatrix stored;
  std::vector<std::byte> bytes;
  std::vector<std::uint8_t> scales;
  std::vector<std::byte> packed_bytes;
  std::vector<std::uint8_t> packed_scales;
  PackedMatrix packed;

  double at(std::int64_t o, std::int64_t i) const {
    const std::int64_t k = stored.inputs;
    const auto* raw = reinterpret_cast<const std::uint8_t*>(bytes.data());
    if (stored.format == WeightFormat::f32) {
      float value = 0;
      std::memcpy(&value, raw + (o * k + i) * 4, 4);
      return value;
    }
    if (stored.format == WeightFormat::bf16) {
      std::uint16_t value = 0;
      std::memcpy(&value, raw + (o * k + i) * 2, 2);
      return decode_bf16(value);
    }
    const std::int64_t blocks = (k + 31) / 32;
    const double scale =
        decode_e8m0(scales[static_cast<std::size_t>(o / stored.scale_rows * blocks + i / 32)]);
    if (stored.format == WeightFormat::e4m3) return decode_e4m3(raw[o * k + i]) * scale;
    const std::uint8_t pair = raw[(o * k + i) / 2];
    return decode_e2m1(static_cast<std::uint8_t>(i % 2 == 0 ? pair : pair >> 4)) * scale;
  }
};

Weight make_weight(Rng& rng, WeightFormat format, std::int64_t outputs, std::int64_t inputs) {
  Weight w;
  w.stored = {.format = format, .outputs = outputs, .inputs = inputs};
  w.stored.scale_rows = format == WeightFormat::e4m3 ? 32 : 1;
  const std::int64_t count = outputs * inputs;
  if (format == WeightFormat::f32) {
    const std::vector<float> values = troupe::test::activations(rng, count);
    w.bytes.resize(static_cast<std::size_t>(count) * 4);
    std::memcpy(w.bytes.data(), values.data(), w.bytes.size());
  } else if (format == WeightFormat::bf16) {
    for (const float value : troupe::test::activations(rng, count)) {
      const auto bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
      const auto* bytes = reinterpret_cast<const std::byte*>(&bits);
      w.bytes.insert(w.bytes.end(), bytes, bytes + 2);
    }
  } else {
    const std::int64_t bytes = format == WeightFormat::e2m1 ? count / 2 : count;
    for (std::int64_t i = 0; i < bytes; ++i) {
      auto code = static_cast<std::uint8_t>(rng.below(256));
      if (format == WeightFormat::e4m3 && (code & 127) == 127) code = 0;
      w.bytes.push_back(std::byte{code});
    }
    const std::int64_t rows = (outputs + w.stored.scale_rows - 1) / w.stored.scale_rows;
    for (std::int64_t i = 0; i < rows * ((inputs + 31) / 32); ++i) {
      w.scales.push_back(
          static_cast<std::uint8_t>(rng.below(40) == 0 ? rng.below(8) : 112 + rng.below(10)));
    }
  }
  w.stored.values = w.bytes.data();
  w.stored.scales = w.scales.data();
  w.packed_bytes.resize(static_cast<std::size_t>(packed_value_bytes(format, outputs, inputs)) + 64);
  w.packed_scales.resize(static_cast<std::size_t>(packed_scale_bytes(format, outputs, inputs)));
  const auto address = reinterpret_cast<std::uintptr_t>(w.packed_bytes.data());
  std::byte* aligned = w.packed_bytes.data() + (64 - address % 64) % 64;
  w.packed = pack(w.stored, 0, outputs, aligned, w.packed_scales.data());
  return w;
}

struct Shape {
  std::int64_t rows, outputs, inputs;
};

const Shape kShapes[] = {{1, 16, 32},  {1, 100, 96}, {1, 250, 256}, {2, 64, 64},  {3, 48, 160},
                         {4, 33, 96},  {5, 80, 288}, {6, 16, 128},  {7, 24, 64},  {13, 40, 512},
                         {25, 70, 96}, {50, 96, 32}, {1, 24, 1024}, {49, 17, 64}, {1, 1, 32}};

using Op = GemmOp OpTable::*;

void check_shape(const Shape& shape, WeightFormat format, Op op, double bound) {
  Rng rng(static_cast<std::uint64_t>(shape.rows * 1000 + shape.outputs));
  const Weight w = make_weight(rng, format, shape.outputs, shape.inputs);
  const std::vector<float> x = troupe::test::activations(rng, shape.rows * shape.inputs);
  std::vector<double> want;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    for (std::int64_t o = 0; o < shape.outputs; ++o) {
      double sum = 0;
      for (std::int64_t i = 0; i < shape.inputs; ++i) {
        sum += double{x[static_cast<std::size_t>(r * shape.inputs + i)]} * w.at(o, i);
      }
      want.push_back(sum);
    }
  }
  for (const OpTable* ops : troupe::test::op_tables()) {
    std::vector<float> got(want.size(), -1.0F);
    const MatrixView<float> out{got.data(), shape.rows, shape.outputs, shape.outputs};
    (ops->*op)({x.data(), shape.rows, shape.inputs, shape.inputs}, w.packed, {0, w.packed.panels()},
               out);
    EXPECT_LT(troupe::test::relative_error(got, want), bound)
        << ops->path << " format " << static_cast<int>(format) << " " << shape.rows << " x "
        << shape.outputs << " x " << shape.inputs;

    // Any cut into rows and panels gives the same bits.
    std::vector<float> cut(got.size(), -2.0F);
    for (std::int64_t r = 0; r < shape.rows;) {
      const auto rows =
          std::min<std::int64_t>(1 + static_cast<std::int64_t>(rng.below(9)), shape.rows - r);
      for (std::int64_t p = 0; p < w.packed.panels();) {
        const auto panels = std::min<std::int64_t>(1 + static_cast<std::int64_t>(rng.below(5)),
                                                   w.packed.panels() - p);
        (ops->*op)({x.data() + r * shape.inputs, rows, shape.inputs, shape.inputs}, w.packed,
                   {p, p + panels},
                   {cut.data() + r * shape.outputs, rows, shape.outputs, shape.outputs});
        p += panels;
      }
      r += rows;
    }
    EXPECT_EQ(std::memcmp(cut.data(), got.data(), got.size() * sizeof(float)), 0)
        << ops->path << " format " << static_cast<int>(format) << " rows " << shape.rows;
  }
}

TEST(Gemm, MatchesDoubleAndIgnoresCuts) {
  for (const Shape& shape : kShapes) {
    for (const WeightFormat format :
         {WeightFormat::f32, WeightFormat::bf16, WeightFormat::e4m3, WeightFormat::e2m1}) {
      check_shape(shape, format, &OpTable::gemm, 1e-6);
      check_shape(shape, format, &OpTable::gemm_wide, 1e-7);
    }
  }
}

TEST(Gemm, PacksPartsOfAMatrix) {
  Rng rng(9);
  for (const WeightFormat format :
       {WeightFormat::f32, WeightFormat::bf16, WeightFormat::e4m3, WeightFormat::e2m1}) {
    const Weight w = make_weight(rng, format, 72, 64);
    const std::vector<float> x = troupe::test::activations(rng, 64);
    std::vector<float> whole(72), part(40);
    scalar::kOps.gemm({x.data(), 1, 64, 64}, w.packed, {0, w.packed.panels()},
                      {whole.data(), 1, 72, 72});
    std::vector<std::byte> bytes(static_cast<std::size_t>(packed_value_bytes(format, 40, 64)));
    std::vector<std::uint8_t> scales(static_cast<std::size_t>(packed_scale_bytes(format, 40, 64)));
    const PackedMatrix cut = pack(w.stored, 20, 40, bytes.data(), scales.data());
    scalar::kOps.gemm({x.data(), 1, 64, 64}, cut, {0, cut.panels()}, {part.data(), 1, 40, 40});
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 20));
  }
}

} // namespace
