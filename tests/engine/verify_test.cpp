// Runs the engine against golden files: small copies in tests/vectors, all of ../shared if present.

#include "engine/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
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
