// Which tensors a V4.1 checkpoint has by its configuration, and how a given one differs from that.
//
// The list covers the draft module and the vision tower too: they are present and unused. Encoding
// is decided by the stored dtype, as in the published variants (matrices in FP8, FP4, BF16 or F32).

#pragma once

#include "engine/model/config.hpp"
#include "engine/model/safetensors.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::engine {

/// What a tensor belongs to. The order is that of reports.
enum class TensorKind : std::uint8_t {
  embedding,
  attention,
  indexer,
  hyper,
  router,
  experts,
  shared_experts,
  engram,
  norm,
  draft,
  vision,
  unknown,
};
inline constexpr std::size_t kTensorKinds = 12;

/// "attention", "shared_experts".
std::string_view tensor_kind_name(TensorKind kind) noexcept;

/// By name alone; a scale has the kind of its weight. Pure.
TensorKind tensor_kind(std::string_view name) noexcept;

/// False for what this build reads past: draft, vision, unknown.
bool tensor_kind_used(TensorKind kind) noexcept;

/// How a parameter may be stored.
enum class Encoding : std::uint8_t {
  plain,  ///< BF16 or F32.
  matrix, ///< BF16, F32, FP8 with a scale for each 32x32 block, or FP4: two codes a byte and a
          ///< scale for each row and 32 columns.
  table,  ///< FP8 with a scale for each row and 32 columns.
};

/// One parameter by the configuration; stored as one tensor, or as a weight and its scale.
struct Parameter {
  std::string name;
  Encoding encoding = Encoding::plain;
  std::vector<std::int64_t> shape; ///< Logical: FP4 columns are not halved.
};

/// Every parameter of the checkpoint, ascending by layer. Vision only when its sizes are known.
std::vector<Parameter> expected_parameters(const ModelConfig& config);

/// Where a checkpoint differs from its configuration. Every entry is one line for a person.
struct InventoryReport {
  std::vector<std::string> missing;        ///< Names this build needs.
  std::vector<std::string> missing_unused; ///< Names of draft and vision.
  std::vector<std::string> wrong;          ///< Another dtype or shape: found and expected.
  std::vector<std::string> wrong_in;       ///< [wrong] paths of their shards.
  std::vector<std::string> unknown;        ///< Names that nothing expects.
};

/// Compares headers with the configuration. Pure.
InventoryReport check_inventory(const ModelConfig& config, const Checkpoint& checkpoint);

} // namespace troupe::engine
