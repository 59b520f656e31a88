// Runs every file of the named folders through the target it is linked with: the kept inputs as a
// test, where no fuzzing engine is.

#include "tests/fuzz/fuzz_target.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

int main(int count, char** arguments) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < count; ++i) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(arguments[i], error)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    if (error) std::fprintf(stderr, "%s: %s\n", arguments[i], error.message().c_str());
  }
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    std::ostringstream bytes;
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    const std::string text = bytes.str();
    // Said before, so that a crash names its input.
    std::printf("%s %zu bytes\n", path.filename().c_str(), text.size());
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }
  std::printf("%zu inputs\n", files.size());
  return files.empty() ? 1 : 0;
}
