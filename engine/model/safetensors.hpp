// Reader of safetensors: a checkpoint folder (index and shards, or one file), or a single file.
//
// Everything about a header is checked before a tensor can be asked for; data is a read-only map
// and never touched here. In header mode nothing is mapped, so full-size checkpoints cost little.

#pragma once

#include "engine/model/file.hpp"
#include "schedulers/core/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::engine {

/// Stored element types. I8 and U8 may also hold two packed FP4 codes a byte.
enum class DType : std::uint8_t { f32, bf16, f16, i8, u8, i32, i64, f8_e4m3, f8_e8m0 };
inline constexpr std::size_t kDTypes = 9;

/// Name as in a safetensors header, such as "F8_E4M3".
std::string_view dtype_name(DType dtype) noexcept;
std::int64_t dtype_bytes(DType dtype) noexcept;
std::optional<DType> dtype_from_name(std::string_view name) noexcept;

/// Where a tensor lies. `offset_bytes` counts from the start of its file.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::int32_t shard = 0; ///< Index into Checkpoint::shards().
  std::int64_t offset_bytes = 0;
  std::int64_t size_bytes = 0; ///< Product of shape times dtype_bytes.
};

/// A tensor's bytes, row-major. Valid while its Checkpoint lives; alignment is not promised.
struct TensorView {
  DType dtype = DType::f32;
  std::span<const std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// One safetensors file of a checkpoint.
struct ShardInfo {
  std::string path;
  std::int64_t header_bytes = 0; ///< Of the JSON, without the length field of eight bytes.
  std::int64_t file_bytes = 0;
};

/// Header of one safetensors file. `shard` of the tensors is 0; tensors ascend by name.
struct SafetensorsHeader {
  ShardInfo file;
  std::vector<TensorInfo> tensors;
};

/// Reads and checks the header of an open file: bounds, names, dtypes, sizes, gaps and overlaps.
///
///   Errors   bad_checkpoint, io_error; they name the file and, where there is one, the tensor
Result<SafetensorsHeader> read_safetensors_header(const InputFile& file);

/// "[5120, 64]".
std::string shape_text(std::span<const std::int64_t> shape);

enum class CheckpointMode : std::uint8_t { map, headers };

/// All tensors of a checkpoint. Owns the maps; moving keeps views valid.
class Checkpoint {
public:
  /// Opens a folder with model.safetensors.index.json and its shards, a folder with
  /// model.safetensors, or one safetensors file.
  ///
  ///   Errors   not_found (nothing at `path`), bad_checkpoint, io_error; one message names file and
  ///            tensor
  static Result<Checkpoint> open(const std::string& path,
                                 CheckpointMode mode = CheckpointMode::map);

  /// Ascending by name.
  std::span<const TensorInfo> tensors() const noexcept { return tensors_; }
  std::span<const ShardInfo> shards() const noexcept { return shards_; }

  /// nullptr when there is no such tensor.
  const TensorInfo* info(std::string_view name) const noexcept;

  /// @pre opened with CheckpointMode::map
  Result<TensorView> find(std::string_view name) const;

  /// find(), and the shape must be `shape` and the dtype one of `dtypes`.
  Result<TensorView> require(std::string_view name, std::span<const DType> dtypes,
                             std::span<const std::int64_t> shape) const;

  /// Data bytes of all tensors, by dtype.
  std::array<std::int64_t, kDTypes> bytes_by_dtype() const noexcept;

  /// metadata.total_size of the index, when there is an index that says it.
  std::optional<std::int64_t> declared_bytes() const noexcept { return declared_bytes_; }

private:
  Status open_sharded(const std::string& folder, const std::string& index_path,
                      CheckpointMode mode);
  Status add_file(const std::string& path, CheckpointMode mode);

  std::vector<TensorInfo> tensors_;
  std::vector<ShardInfo> shards_;
  std::vector<FileMap> maps_;
  std::optional<std::int64_t> declared_bytes_;
};

} // namespace troupe::engine
