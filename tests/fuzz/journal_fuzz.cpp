// Bytes of a journal → a job that goes on, or a refusal that leaves every byte where it was.

#include "actors/app/batch_files.hpp"
#include "actors/app/journal.hpp"
#include "tests/fuzz/fuzz_target.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace {

using namespace troupe;

// Handing out lines stops somewhere, whatever the rows say.
constexpr int kRoundsMax = 100;

std::string bytes_of(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string& folder = fuzz::scratch_folder();
  const app::BatchPaths paths = app::batch_paths(folder + "/in.jsonl", folder + "/out.jsonl", "");
  for (const std::string& path : {paths.output, paths.errors, paths.journal + "-journal"})
    std::filesystem::remove(path);
  fuzz::write_scratch(paths.input, "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":"
                                   "\"/v1/completions\",\"body\":{\"prompt\":\"p\"}}\n");
  const std::string_view journal = fuzz::text_of(data, size);
  fuzz::write_scratch(paths.journal, journal);
  app::JobOptions options;
  options.now_us = 1'700'000'000'000'000;
  auto job = app::open_journal(paths, {{{"model", "m"}}, {{"cpu_path", "avx2"}}}, options);
  if (!job.ok()) {
    fuzz::require(!job.error().message.empty(), "a refusal has words");
    fuzz::require(bytes_of(paths.journal) == journal, "a refusal changes nothing");
    return 0;
  }
  for (int round = 0; round < kRoundsMax; ++round) {
    const auto next = (*job)->next_lines(8);
    if (!next.ok() || next->at_end) break;
  }
  return 0;
}
