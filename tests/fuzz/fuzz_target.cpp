#include "tests/fuzz/fuzz_target.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace troupe::fuzz {

namespace {

/// Makes the folder and takes it away again.
struct Folder {
  std::string path;

  Folder() {
    const bool has_memory = std::filesystem::is_directory("/dev/shm");
    path = has_memory ? "/dev/shm/troupe-fuzz-XXXXXX" : "/tmp/troupe-fuzz-XXXXXX";
    require(::mkdtemp(path.data()) != nullptr, "no folder for scratch files");
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

} // namespace

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: broken promise: %s\n", what);
  std::abort();
}

const std::string& scratch_folder() {
  static const Folder folder;
  return folder.path;
}

void write_scratch(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  require(static_cast<bool>(file.flush()), "a scratch file cannot be written");
}

} // namespace troupe::fuzz
