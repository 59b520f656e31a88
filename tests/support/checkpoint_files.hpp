// Small safetensors files and checkpoint folders for tests, written from a list of tensors.
//
// The header text can be given as it is, so that damaged files are one line in a test.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace troupe::test {

/// A fresh empty folder, removed with everything in it at the end of its life.
class ScratchFolder {
public:
  ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();

  std::string path() const { return path_.string(); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

private:
  std::filesystem::path path_;
};

void write_file(const std::string& path, const std::string& bytes);
std::string read_file(const std::string& path);

/// One tensor of a file to write; `bytes` must have the size of dtype and shape.
struct TensorSpec {
  std::string name;
  std::string dtype = "F32";
  std::vector<std::int64_t> shape;
  std::string bytes;
};

/// A tensor of zeros.
TensorSpec zeros(const std::string& name, const std::string& dtype,
                 std::vector<std::int64_t> shape);

/// Bytes of a safetensors file with this header text and data.
std::string safetensors_bytes(const std::string& header, const std::string& data);

/// A well-formed file with the tensors in the given order.
std::string safetensors_bytes(const std::vector<TensorSpec>& tensors);

/// Text of a model.safetensors.index.json, from pairs of tensor name and file name.
std::string index_json(const std::vector<std::pair<std::string, std::string>>& weight_map);

/// The folder of shared test material ($TROUPE_SHARED, else beside the source tree), or "".
std::string shared_folder();

} // namespace troupe::test
