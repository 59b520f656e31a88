// Runs the engine against golden files: small copies in tests/vectors, all of ../shared if present.

#include "engine/verify.hpp"
#include "tests/support/checkpoint_files.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace {

using troupe::engine::Verifier;
using troupe::engine::VerifyFileReport;

std::filesystem::path shared() {
  const char* path = std::getenv("TROUPE_SHARED");
  return path != nullptr ? path : std::filesystem::path(TROUPE_SOURCE_DIR) / ".." / "shared";
}

std::vector<std::string> golden_files(const std::filesystem::path& folder) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") out.push_back(entry.path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

void print(const VerifyFileReport& report) {
  if (report.quants.empty()) std::printf("SKIP %ld %s\n", report.skipped, report.file.c_str());
  for (const auto& q : report.quants) {
    std::printf("%s %s %s %s %.1e %ld/%ld SKIP %ld rows %ld/%ld\n", q.passed ? "PASS" : "FAIL",
                report.file.c_str(), q.quant.c_str(), q.worst_tensor.c_str(), q.worst_error,
                q.greedy_equal, q.greedy_count, q.skipped, q.rows_outside, q.rows);
    for (const auto& problem : q.problems)
      std::printf("  %s\n", problem.c_str());
  }
}

void verify_all(const std::filesystem::path& model, const std::filesystem::path& goldens,
                const std::string& cpu_path, int threads) {
  auto verifier = Verifier::open({model.string(), cpu_path, threads});
  ASSERT_TRUE(verifier.ok()) << verifier.error().message;
  for (const std::string& file : golden_files(goldens)) {
    auto report = verifier->verify_file(file);
    ASSERT_TRUE(report.ok()) << report.error().message;
    print(*report);
    EXPECT_TRUE(report->passed()) << file;
  }
}

TEST(BundledGoldens, Pass) {
  const std::filesystem::path source(TROUPE_SOURCE_DIR);
  for (const char* cpu_path : {"auto", "scalar"}) {
    verify_all(source / "examples/models/nano-v4.1", source / "tests/vectors/goldens/nano-v4.1",
               cpu_path, 2);
  }
}

TEST(Verifier, RefusesWhatIsNoGoldenFile) {
  const std::filesystem::path model =
      std::filesystem::path(TROUPE_SOURCE_DIR) / "examples/models/nano-v4.1";
  auto verifier = Verifier::open({model.string(), "auto", 1});
  ASSERT_TRUE(verifier.ok());
  auto shard = verifier->verify_file((model / "model-00001-of-00004.safetensors").string());
  ASSERT_FALSE(shard.ok());
  EXPECT_NE(shard.error().message.find("golden file"), std::string::npos) << shard.error().message;
  const std::string absent = (model / "absent.safetensors").string();
  EXPECT_EQ(verifier->verify_file(absent).error().message,
            absent +
                ": is not there, expected a golden file; name one, or a folder that holds some");
  EXPECT_EQ(verifier->verify_file(model.string()).error().message,
            model.string() + ": is a folder, expected a golden file; name the files in it");
}

/// Where the data of a tensor begins in a safetensors file.
std::size_t data_of(const std::string& bytes, const std::string& tensor) {
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const std::size_t entry = bytes.find('"' + tensor + '"');
  const std::string key = "\"data_offsets\":[";
  const std::size_t offset = bytes.find(key, entry);
  return 8 + header + std::stoull(bytes.substr(offset + key.size(), 20));
}

TEST(Verifier, FindsAChangedTensor) {
  const std::filesystem::path source(TROUPE_SOURCE_DIR);
  auto verifier = Verifier::open({(source / "examples/models/nano-v4.1").string(), "auto", 1});
  ASSERT_TRUE(verifier.ok());
  const troupe::test::ScratchFolder folder;
  for (const auto& [name, tensor] :
       {std::pair{"repeat-012.safetensors", "off.layers.9.attn_out"},
        std::pair{"repeat-012.safetensors", "off.layers.8.topk"},
        std::pair{"repeat-012.safetensors", "sim.greedy"},
        std::pair{"layers-small_talk-008.safetensors", "sim.layers.9.attn_out"},
        std::pair{"layers-small_talk-008.safetensors", "sim.layers.9.router_ids"}}) {
    std::string bytes =
        troupe::test::read_file((source / "tests/vectors/goldens/nano-v4.1" / name).string());
    bytes[data_of(bytes, tensor) + 3] ^= 0x40; // the exponent of a float, a high bit of an integer
    troupe::test::write_file(folder / name, bytes);
    auto report = verifier->verify_file(folder / name);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_FALSE(report->passed()) << name << " " << tensor;
  }
}

/// Also where differences are only printed, and in bounds of other tensors.
TEST(Verifier, FindsNumbersThatAreNone) {
  const std::filesystem::path source(TROUPE_SOURCE_DIR);
  auto verifier = Verifier::open({(source / "examples/models/nano-v4.1").string(), "auto", 1});
  ASSERT_TRUE(verifier.ok());
  const troupe::test::ScratchFolder folder;
  for (const char* tensor : {"off.layers.9.attn_out", "off.last_logits", "off.layers.8.topk_margin",
                             "sim.greedy_margin"}) {
    std::string bytes = troupe::test::read_file(
        (source / "tests/vectors/goldens/nano-v4.1/repeat-012.safetensors").string());
    ASSERT_NE(bytes.find('"' + std::string(tensor) + '"'), std::string::npos) << tensor;
    // A quiet NaN with a sign and one without: both are told the same.
    for (const unsigned char sign : {0xFF, 0x7F}) {
      std::memset(bytes.data() + data_of(bytes, tensor), 0xFF, 4);
      bytes[data_of(bytes, tensor) + 3] = static_cast<char>(sign);
      troupe::test::write_file(folder / "odd.safetensors", bytes);
      auto report = verifier->verify_file(folder / "odd.safetensors");
      ASSERT_TRUE(report.ok()) << report.error().message;
      EXPECT_FALSE(report->passed()) << tensor;
      std::string problems;
      for (const auto& quant : report->quants) {
        for (const std::string& problem : quant.problems)
          problems += problem + '\n';
      }
      const std::string told = std::string(tensor) + ": holds nan as number 0, expected finite";
      EXPECT_NE(problems.find(told), std::string::npos) << problems;
    }
  }
}

class SharedGoldens : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(SharedGoldens, Pass) {
  const auto [model, cpu_path] = GetParam();
  if (!std::filesystem::exists(shared() / "goldens" / model)) {
    GTEST_SKIP() << "no ../shared beside the repository";
  }
  verify_all(shared() / "models" / model, shared() / "goldens" / model, cpu_path, 1);
}

INSTANTIATE_TEST_SUITE_P(All, SharedGoldens,
                         testing::Values(std::pair{"micro-v4.1", "scalar"},
                                         std::pair{"micro-v4.1", "auto"},
                                         std::pair{"nano-v4.1", "scalar"},
                                         std::pair{"nano-v4.1", "auto"}));

} // namespace
