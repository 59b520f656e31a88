// Writers of small checkpoint files.

#include "tests/support/checkpoint_files.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <unistd.h>

namespace troupe::test {

ScratchFolder::ScratchFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "troupe-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_file(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

namespace {

std::size_t dtype_size(const std::string& dtype) {
  if (dtype == "I64") return 8;
  if (dtype == "F32" || dtype == "I32") return 4;
  return dtype == "BF16" || dtype == "F16" ? 2 : 1;
}

std::string json_text(const std::string& text) {
  std::string out(1, '"');
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
  return out;
}

} // namespace

TensorSpec zeros(const std::string& name, const std::string& dtype,
                 std::vector<std::int64_t> shape) {
  std::size_t bytes = dtype_size(dtype);
  for (const std::int64_t n : shape)
    bytes *= static_cast<std::size_t>(n);
  return {name, dtype, std::move(shape), std::string(bytes, '\0')};
}

std::string safetensors_bytes(const std::string& header, const std::string& data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return bytes + header + data;
}

std::string safetensors_bytes(const std::vector<TensorSpec>& tensors) {
  std::ostringstream header;
  header << "{\"__metadata__\":{\"format\":\"pt\"}";
  std::string data;
  for (const TensorSpec& tensor : tensors) {
    header << "," << json_text(tensor.name) << ":{\"dtype\":\"" << tensor.dtype << "\",\"shape\":[";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      header << (i == 0 ? "" : ",") << tensor.shape[i];
    }
    header << "],\"data_offsets\":[" << data.size() << "," << data.size() + tensor.bytes.size()
           << "]}";
    data += tensor.bytes;
  }
  header << "}";
  std::string text = header.str();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return safetensors_bytes(text, data);
}

std::string index_json(const std::vector<std::pair<std::string, std::string>>& weight_map) {
  std::ostringstream text;
  text << "{\"metadata\":{},\"weight_map\":{";
  for (std::size_t i = 0; i < weight_map.size(); ++i) {
    text << (i == 0 ? "" : ",") << json_text(weight_map[i].first) << ":"
         << json_text(weight_map[i].second);
  }
  text << "}}";
  return text.str();
}

std::string shared_folder() {
  const char* set = std::getenv("TROUPE_SHARED");
  const std::string folder = set != nullptr ? set : TROUPE_SOURCE_DIR "/../shared";
  return std::filesystem::is_directory(folder) ? folder : "";
}

} // namespace troupe::test
