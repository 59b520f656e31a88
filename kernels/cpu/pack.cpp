// Packing by plain copies: every value keeps its stored bits, only the order changes.

#include "kernels/pack.hpp"

#include <cstring>

namespace troupe::kernels {

namespace {

std::int64_t panels_of(std::int64_t outputs) { return (outputs + kPanelRows - 1) / kPanelRows; }
std::int64_t scale_blocks_of(std::int64_t inputs) {
  return (inputs + kScaleBlock - 1) / kScaleBlock;
}

bool has_scales(WeightFormat format) {
  return format == WeightFormat::e4m3 || format == WeightFormat::e2m1;
}

void pack_elements(const StoredMatrix& from, std::int64_t first, std::int64_t count,
                   std::int64_t element_bytes, std::byte* values) {
  const std::int64_t k = from.inputs;
  for (std::int64_t o = 0; o < count; ++o) {
    const std::byte* row = from.values + (first + o) * k * element_bytes;
    std::byte* panel = values + (o / kPanelRows) * k * kPanelRows * element_bytes;
    for (std::int64_t i = 0; i < k; ++i) {
      std::memcpy(panel + (i * kPanelRows + o % kPanelRows) * element_bytes,
                  row + i * element_bytes, static_cast<std::size_t>(element_bytes));
    }
  }
}

void pack_nibbles(const StoredMatrix& from, std::int64_t first, std::int64_t count,
                  std::byte* values) {
  const std::int64_t k = from.inputs;
  for (std::int64_t o = 0; o < count; ++o) {
    const std::byte* row = from.values + (first + o) * (k / 2);
    const std::int64_t lane = o % kPanelRows;
    std::byte* panel = values + (o / kPanelRows) * k * (kPanelRows / 2);
    for (std::int64_t i = 0; i < k; ++i) {
      const std::byte code = (i % 2 == 0 ? row[i / 2] : row[i / 2] >> 4) & std::byte{15};
      panel[i * (kPanelRows / 2) + lane % 8] |= lane < 8 ? code : code << 4;
    }
  }
}

} // namespace

std::int64_t packed_value_bytes(WeightFormat format, std::int64_t outputs,
                                std::int64_t inputs) noexcept {
  const std::int64_t values = panels_of(outputs) * kPanelRows * inputs;
  switch (format) {
  case WeightFormat::f32:
    return values * 4;
  case WeightFormat::bf16:
    return values * 2;
  case WeightFormat::e4m3:
    return values;
  case WeightFormat::e2m1:
    return values / 2;
  }
  return 0;
}

std::int64_t packed_scale_bytes(WeightFormat format, std::int64_t outputs,
                                std::int64_t inputs) noexcept {
  return has_scales(format) ? panels_of(outputs) * scale_blocks_of(inputs) * kPanelRows : 0;
}

PackedMatrix pack(const StoredMatrix& from, std::int64_t first, std::int64_t count,
                  std::byte* values, std::uint8_t* scales) noexcept {
  std::memset(values, 0,
              static_cast<std::size_t>(packed_value_bytes(from.format, count, from.inputs)));
  switch (from.format) {
  case WeightFormat::f32:
    pack_elements(from, first, count, 4, values);
    break;
  case WeightFormat::bf16:
    pack_elements(from, first, count, 2, values);
    break;
  case WeightFormat::e4m3:
    pack_elements(from, first, count, 1, values);
    break;
  case WeightFormat::e2m1:
    pack_nibbles(from, first, count, values);
    break;
  }
  if (has_scales(from.format)) {
    const std::int64_t blocks = scale_blocks_of(from.inputs);
    // 127 is the scale 1, for the outputs past the end.
    std::memset(scales, 127,
                static_cast<std::size_t>(packed_scale_bytes(from.format, count, from.inputs)));
    for (std::int64_t o = 0; o < count; ++o) {
      const std::uint8_t* row = from.scales + ((first + o) / from.scale_rows) * blocks;
      std::uint8_t* panel = scales + (o / kPanelRows) * blocks * kPanelRows;
      for (std::int64_t b = 0; b < blocks; ++b)
        panel[b * kPanelRows + o % kPanelRows] = row[b];
    }
  }
  return PackedMatrix{from.format, count, from.inputs, values,
                      has_scales(from.format) ? scales : nullptr};
}

} // namespace troupe::kernels
