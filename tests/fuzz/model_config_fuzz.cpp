// config.json, generation_config.json and engram.json → a configuration, or one message.
//
// One input holds the three files, parted by the byte 0x1E; one that is missing is not written.

#include "engine/model/config.hpp"
#include "engine/model/inventory.hpp"
#include "tests/fuzz/fuzz_target.hpp"

#include <array>
#include <filesystem>

namespace {

// Lists of more names than this only cost time.
constexpr std::int64_t kExpertsMax = 4096;

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace troupe;
  const std::string& folder = fuzz::scratch_folder();
  std::string_view rest = fuzz::text_of(data, size);
  bool has_more = true;
  for (const char* name : {"/config.json", "/generation_config.json", "/engram.json"}) {
    const std::string path = folder + name;
    std::filesystem::remove(path);
    if (!has_more) continue;
    const std::size_t end = rest.find('\x1E');
    fuzz::write_scratch(path, rest.substr(0, end));
    has_more = end != std::string_view::npos;
    if (has_more) rest.remove_prefix(end + 1);
  }
  const auto config = engine::read_model_config(folder);
  if (!config.ok()) {
    fuzz::require(config.error().message.starts_with(folder), "a message names the file");
    return 0;
  }
  fuzz::require(std::ssize(config->ratios) == config->layers, "one ratio a layer");
  fuzz::require(config->block_multiple() > 0, "blocks have a size");
  for (std::int64_t layer = 0; layer < config->layers; ++layer) {
    fuzz::require(!config->has_rows(layer) || config->kv_owner(layer) >= 0, "rows have an owner");
  }
  if (config->layers * config->experts + config->draft.stages * config->draft.experts >
      kExpertsMax) {
    return 0;
  }
  for (const engine::Parameter& parameter : engine::expected_parameters(*config)) {
    std::int64_t elements = 1;
    for (const std::int64_t n : parameter.shape) {
      fuzz::require(!__builtin_mul_overflow(elements, n, &elements), "shapes fit 63 bits");
    }
  }
  return 0;
}
