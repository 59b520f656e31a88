// Checkpoint folders: the index names the shard of every tensor, and both sides must agree.

#include "engine/model/safetensors.hpp"

#include "engine/model/json_keys.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <sys/stat.h>
#include <utility>

namespace troupe::engine {

namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";
constexpr std::int64_t kIndexBytesMax = 256'000'000;
constexpr std::size_t kNameBytesMax = 1024; ///< Of a shard, from the folder on.

struct Placed {
  std::string tensor;
  std::string file;
};

/// Reads weight_map and metadata.total_size; everything else in an index is skipped.
class IndexReader : public nlohmann::json::json_sax_t {
public:
  std::vector<Placed> placed;
  std::optional<std::int64_t> total_size_bytes;
  bool has_weight_map = false;
  std::string problem;

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(std::int64_t) override { return other(); }
  bool number_float(double, const std::string&) override { return other(); }
  bool binary(binary_t&) override { return other(); }

  bool number_unsigned(std::uint64_t value) override {
    if (depth() == 2 && table_ == "metadata" && key_ == "total_size" && value <= INT64_MAX) {
      total_size_bytes = static_cast<std::int64_t>(value);
      return true;
    }
    return other();
  }

  bool string(std::string& value) override {
    if (!in_map()) return other();
    placed.push_back({key_, std::move(value)});
    return true;
  }

  bool start_object(std::size_t) override {
    if (in_map()) return other();
    if (!open()) return false;
    if (in_map()) has_weight_map = true;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth() == 0 || in_map() || (depth() == 1 && table_ == "weight_map")) return other();
    return open();
  }
  bool end_object() override {
    keys_.close();
    return true;
  }
  bool end_array() override { return end_object(); }

  bool key(std::string& name) override {
    if (!keys_.take(name)) {
      problem = keys_.problem();
      return false;
    }
    if (depth() == 1) table_ = name;
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    no_json_at(position);
    return false;
  }

  /// @param position  of the text, from 1
  void no_json_at(std::size_t position) {
    problem = "no valid JSON at byte " + std::to_string(position) + ", expected one object";
  }

private:
  bool open() {
    if (keys_.open()) return true;
    problem = keys_.problem();
    return false;
  }
  std::size_t depth() const { return keys_.depth(); }
  bool in_map() const { return depth() == 2 && table_ == "weight_map"; }
  bool other() {
    if (depth() == 0) {
      problem = "expected a JSON object with weight_map";
      return false;
    }
    if (depth() == 1 && table_ == "weight_map") {
      problem = "weight_map: expected an object, tensor name to file name";
      return false;
    }
    if (in_map()) {
      problem = "weight_map: tensor " + in_quotes(key_) + ": expected a file name as text";
      return false;
    }
    return true;
  }

  JsonKeys keys_;
  std::string table_;
  std::string key_;
};

/// True for a relative path of sane length that cannot point out of the folder.
bool stays_inside(const std::string& file) {
  if (file.empty() || file.size() > kNameBytesMax || file.front() == '/') return false;
  if (file.find('\0') != std::string::npos) return false;
  for (std::size_t begin = 0; begin <= file.size();) {
    const std::size_t end = std::min(file.find('/', begin), file.size());
    const auto part = std::string_view(file).substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

Result<IndexReader> read_index(const std::string& path) {
  auto text = read_text_file(path, kIndexBytesMax);
  if (!text) return text.error();
  IndexReader reader;
  const auto damaged = [&](const std::string& what) {
    return Error{ErrorCode::bad_checkpoint,
                 path + ": " + what + "; the index is damaged, fetch the checkpoint again"};
  };
  // The JSON reader takes a zero byte for the end of its input.
  const std::size_t zero = text->find('\0');
  if (zero != std::string::npos) reader.no_json_at(zero + 1);
  if (zero != std::string::npos || !nlohmann::json::sax_parse(*text, &reader)) {
    return damaged(reader.problem.empty() ? "no valid JSON" : reader.problem);
  }
  if (!reader.has_weight_map || reader.placed.empty()) {
    return damaged(std::string("weight_map: is ") + (reader.has_weight_map ? "empty" : "missing") +
                   ", expected an object, tensor name to file name");
  }
  std::sort(reader.placed.begin(), reader.placed.end(), [](const Placed& a, const Placed& b) {
    return a.file != b.file ? a.file < b.file : a.tensor < b.tensor;
  });
  for (const Placed& placed : reader.placed) {
    if (!stays_inside(placed.file)) {
      return damaged("weight_map: tensor " + in_quotes(placed.tensor) + " is said to lie in " +
                     in_quotes(placed.file) + ", expected a file inside the checkpoint folder");
    }
  }
  return reader;
}

/// Compares what the index says of one shard with what its header has; both ascend by name.
std::string compare_shard(std::span<const Placed> placed, std::span<const TensorInfo> found,
                          const std::string& shard, const std::string& index) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < placed.size() || j < found.size()) {
    if (j == found.size() || (i < placed.size() && placed[i].tensor < found[j].name)) {
      return shard + ": tensor " + in_quotes(placed[i].tensor) + ": is missing, but " + index +
             " says it lies here; fetch the shard again";
    }
    if (i == placed.size() || found[j].name < placed[i].tensor) {
      return shard + ": tensor " + in_quotes(found[j].name) + ": is here, but " + index +
             " does not name it for this file; index and shards are of two checkpoints, fetch both "
             "again";
    }
    ++i;
    ++j;
  }
  return {};
}

} // namespace

Status Checkpoint::add_file(const std::string& path, CheckpointMode mode) {
  auto file = InputFile::open(path);
  if (!file) return file.error();
  auto header = read_safetensors_header(*file);
  if (!header) return header.error();
  const auto shard = static_cast<std::int32_t>(shards_.size());
  shards_.push_back(std::move(header->file));
  for (TensorInfo& tensor : header->tensors) {
    tensor.shard = shard;
    tensors_.push_back(std::move(tensor));
  }
  if (mode == CheckpointMode::headers) return {};
  auto map = file->map();
  if (!map) return map.error();
  if (std::ssize(map->bytes()) != shards_.back().file_bytes) {
    return {ErrorCode::io_error,
            path + ": changed its size while being opened, expected a file at rest; "
                   "run again when nobody writes to it"};
  }
  maps_.push_back(std::move(*map));
  return {};
}

Status Checkpoint::open_sharded(const std::string& folder, const std::string& index_path,
                                CheckpointMode mode) {
  auto index = read_index(index_path);
  if (!index) return index.error();
  declared_bytes_ = index->total_size_bytes;
  const std::span<const Placed> placed = index->placed;
  for (std::size_t begin = 0; begin < placed.size();) {
    std::size_t end = begin;
    while (end < placed.size() && placed[end].file == placed[begin].file)
      ++end;
    const std::string path = folder + "/" + placed[begin].file;
    const std::size_t known = tensors_.size();
    if (Status status = add_file(path, mode); !status) {
      if (status.error().code != ErrorCode::not_found) return status;
      return {ErrorCode::bad_checkpoint,
              path + ": shard is missing, " + std::to_string(end - begin) + " tensors such as " +
                  in_quotes(placed[begin].tensor) + " should lie in it by " + index_path +
                  "; fetch the whole checkpoint"};
    }
    std::string problem = compare_shard(placed.subspan(begin, end - begin),
                                        std::span(tensors_).subspan(known), path, index_path);
    if (!problem.empty()) return {ErrorCode::bad_checkpoint, std::move(problem)};
    begin = end;
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  return {};
}

Result<Checkpoint> Checkpoint::open(const std::string& path, CheckpointMode mode) {
  Checkpoint checkpoint;
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) {
    return Error{ErrorCode::not_found,
                 path + ": is not there, expected a checkpoint folder or a safetensors file; "
                        "name the folder of a model"};
  }
  Status status;
  const std::string index = path + "/" + kIndexName;
  const std::string single = path + "/" + kSingleName;
  if (!S_ISDIR(facts.st_mode)) {
    status = checkpoint.add_file(path, mode);
  } else if (path_exists(index)) {
    status = checkpoint.open_sharded(path, index, mode);
  } else if (path_exists(single)) {
    status = checkpoint.add_file(single, mode);
  } else {
    status = {ErrorCode::bad_checkpoint,
              path + ": has neither " + kIndexName + " nor " + kSingleName +
                  ", expected the folder of a safetensors checkpoint; fetch it again"};
  }
  if (!status) return status.error();
  return checkpoint;
}

const TensorInfo* Checkpoint::info(std::string_view name) const noexcept {
  const auto at =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const TensorInfo& a, std::string_view b) { return a.name < b; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

Result<TensorView> Checkpoint::find(std::string_view name) const {
  TROUPE_CHECK(maps_.size() == shards_.size(), "find() of a checkpoint opened for headers only");
  const TensorInfo* tensor = info(name);
  if (tensor == nullptr) {
    const std::string where = shards_.empty() ? "the checkpoint" : shards_.front().path;
    return Error{ErrorCode::bad_checkpoint,
                 where + (shards_.size() > 1 ? " and the other shards" : "") + ": tensor " +
                     in_quotes(name) +
                     ": is missing, expected by config.json; fetch the checkpoint again"};
  }
  const auto shard = static_cast<std::size_t>(tensor->shard);
  return TensorView{tensor->dtype, tensor->shape,
                    maps_[shard].bytes().subspan(static_cast<std::size_t>(tensor->offset_bytes),
                                                 static_cast<std::size_t>(tensor->size_bytes))};
}

Result<TensorView> Checkpoint::require(std::string_view name, std::span<const DType> dtypes,
                                       std::span<const std::int64_t> shape) const {
  auto view = find(name);
  if (!view) return view;
  const bool known = std::find(dtypes.begin(), dtypes.end(), view->dtype) != dtypes.end();
  if (known && std::equal(shape.begin(), shape.end(), view->shape.begin(), view->shape.end())) {
    return view;
  }
  std::string wanted;
  for (const DType dtype : dtypes) {
    wanted += (wanted.empty() ? "" : " or ") + std::string(dtype_name(dtype));
  }
  return Error{
      ErrorCode::bad_checkpoint,
      shards_[static_cast<std::size_t>(info(name)->shard)].path + ": tensor " + in_quotes(name) +
          ": is " + std::string(dtype_name(view->dtype)) + " " + shape_text(view->shape) +
          ", expected " + wanted + " " + shape_text(shape) +
          " by config.json; weights and config.json are of two models, or damaged: fetch both "
          "again"};
}

std::array<std::int64_t, kDTypes> Checkpoint::bytes_by_dtype() const noexcept {
  std::array<std::int64_t, kDTypes> bytes{};
  for (const TensorInfo& tensor : tensors_) {
    bytes[static_cast<std::size_t>(tensor.dtype)] += tensor.size_bytes;
  }
  return bytes;
}

} // namespace troupe::engine
