// Goal: neither many lines nor a long one takes memory that grows with them.
// Method: the largest resident set of a long job is compared with that of 1,000 lines.

#include "tests/support/batch_folder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace troupe::test {
namespace {

constexpr std::int64_t kLineBytesMax = 16LL << 20;
constexpr std::int64_t kMayGrowBytes = 100LL << 20;

/// Largest resident set of a job of `count` lines, each answered once.
std::int64_t peak_bytes(std::int64_t count, bool is_null) {
  BatchFolder job;
  if (is_null) job.use_null_device();
  job.write_input(BatchFolder::completions(count, is_null ? 2 : 4));
  const ProcessEnd end = job.run();
  EXPECT_EQ(end.code, 0) << end.err;
  const JobAnswers answers = job.answers();
  EXPECT_TRUE(answers.is_exact());
  EXPECT_EQ(answers.lines, count);
  std::printf("%ld lines: %ld KiB\n", static_cast<long>(count),
              static_cast<long>(end.peak_bytes >> 10));
  return end.peak_bytes;
}

void expect_flat(std::int64_t count, bool is_null) {
  const std::int64_t few = peak_bytes(1000, is_null);
  EXPECT_LT(peak_bytes(count, is_null), few + kMayGrowBytes);
}

TEST(Cases, B7_FiftyThousandLinesAreFlat) { expect_flat(50'000, true); }

TEST(CasesSlow, B7_HalfAMillionLinesAreFlat) { expect_flat(500'000, true); }

TEST(SizeSlow, TwentyThousandComputedLinesAreFlat) { expect_flat(20'000, false); }

/// A line of exactly `bytes` bytes, without its end.
std::string line_of(const std::string& id, std::int64_t bytes) {
  const std::string begin =
      fmt::format(R"({{"custom_id":"{}","method":"POST","url":"/v1/completions","body":)"
                  R"({{"prompt":[5],"max_tokens":2,"user":")",
                  id);
  const std::string end = R"("}})";
  const auto filling = static_cast<std::size_t>(bytes) - begin.size() - end.size();
  return begin + std::string(filling, 'u') + end;
}

TEST(Cases, B6_ALineMayBeAsLongAsTheLimitAndNoLonger) {
  for (const char* line_end : {"\n", "\r\n"}) {
    BatchFolder job;
    job.use_null_device();
    job.write_input(line_of("at", kLineBytesMax) + line_end + line_of("above", kLineBytesMax + 1) +
                    line_end + line_of("below", kLineBytesMax - 1) + line_end +
                    line_of("short", 200));
    const ProcessEnd end = job.run();
    EXPECT_EQ(end.code, 3) << end.err;
    const JobAnswers answers = job.answers();
    EXPECT_TRUE(answers.is_exact());
    EXPECT_EQ(answers.output.size(), 3U);
    ASSERT_EQ(answers.errors.size(), 1U);
    const auto& [where, error] = *answers.errors.begin();
    EXPECT_EQ(where, "line 2") << "its custom_id is not read";
    EXPECT_NE(error.find("line_too_long"), std::string::npos) << error;
    EXPECT_NE(error.find(fmt::format("{}", kLineBytesMax + 1)), std::string::npos) << error;
    EXPECT_NE(error.find(fmt::format("{}", kLineBytesMax)), std::string::npos) << error;
    EXPECT_LT(end.peak_bytes, 600LL << 20);
  }
}

TEST(Cases, B6_ALineOfTwoHundredMegabytesIsSkippedWithoutBeingKept) {
  BatchFolder job;
  job.use_null_device();
  job.write_input(BatchFolder::completions(3));
  const std::int64_t few = job.run().peak_bytes;
  job.write_input(line_of("huge", 200'000'000) + "\n" + BatchFolder::completions(3));
  const ProcessEnd end = job.run({"--restart"});
  EXPECT_EQ(end.code, 3) << end.err;
  EXPECT_EQ(job.answers().lines, 4);
  EXPECT_LT(end.peak_bytes, few + kMayGrowBytes);
}

} // namespace
} // namespace troupe::test
