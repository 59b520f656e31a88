// The judge of the quickstart, run as a program on files small enough to count by hand.

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEval =
    R"({"id":0,"task":"copy","answer":"a","completion":"a<｜end｜>"}
{"id":1,"task":"copy","answer":"b","completion":"<think>c</think>b<｜end｜>"}
{"id":2,"task":"call","answer":"","completion":"<｜x｜ y>\nz</｜x｜ y><｜end｜>"}
)";
constexpr const char* kBatch = R"({"custom_id":"0","url":"/v1/chat/completions"}
{"custom_id":"1","url":"/v1/chat/completions"}
{"custom_id":"2","url":"/v1/completions"}
)";

std::string chat(const std::string& id, const std::string& content) {
  return R"({"custom_id":")" + id + R"(","response":{"body":{"choices":[{"message":{"content":)" +
         content + "}}]}}}\n";
}

std::string completion(const std::string& id, const std::string& text) {
  return R"({"custom_id":")" + id + R"(","response":{"body":{"choices":[{"text":)" + text +
         "}]}}}\n";
}

struct Ran {
  int exit_code = -1;
  std::string output; ///< Of both streams.
};

class QuickstartJudge : public testing::Test {
protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("quickstart_judge_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    write("eval.jsonl", kEval);
    write("batch.jsonl", kBatch);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  Ran judge(const std::string& results, const std::string& more = "") {
    write("results.jsonl", results);
    std::string command = TROUPE_JUDGE;
    for (const char* name : {"eval.jsonl", "batch.jsonl", "results.jsonl"})
      command.append(" ").append((folder_ / name).string());
    command.append(" ").append(more).append(" 2>&1");
    std::FILE* pipe = ::popen(command.c_str(), "r");
    Ran ran;
    std::array<char, 4096> buffer{};
    while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr)
      ran.output += buffer.data();
    ran.exit_code = WEXITSTATUS(::pclose(pipe));
    return ran;
  }

  fs::path folder_;
};

TEST_F(QuickstartJudge, CountsContentAndText) {
  const std::string right_call = completion("2", R"("<｜x｜ y>\nz</｜x｜ y>")");
  const Ran all = judge(right_call + chat("1", R"("b")") + chat("0", R"("a")"), "3");
  EXPECT_EQ(all.exit_code, 0) << all.output;
  EXPECT_NE(all.output.find("3 of 3 answers right"), std::string::npos) << all.output;

  const Ran some = judge(chat("0", R"("a ")") + chat("1", "null") + right_call, "1");
  EXPECT_EQ(some.exit_code, 0) << some.output;
  EXPECT_NE(some.output.find("1 of 3 answers right"), std::string::npos) << some.output;
  EXPECT_NE(some.output.find("call             1 of   1"), std::string::npos) << some.output;
}

TEST_F(QuickstartJudge, FailsBelowTheWantedNumber) {
  const std::string two = chat("0", R"("a")") + chat("1", R"("b")") + completion("2", R"("other")");
  EXPECT_EQ(judge(two, "2").exit_code, 0);
  EXPECT_EQ(judge(two, "3").exit_code, 1);
  EXPECT_EQ(judge(chat("0", R"("a")") + chat("1", R"("b")")).exit_code, 1) << "one is missing";
}

TEST_F(QuickstartJudge, RefusesUnusableInput) {
  EXPECT_EQ(judge(chat("9", R"("a")")).exit_code, 2) << "unknown id";
  EXPECT_EQ(judge(chat("0", R"("a")") + chat("0", R"("a")")).exit_code, 2) << "answered twice";
  EXPECT_EQ(judge(chat("0", R"("a")"), "many").exit_code, 2) << "no number";
  const Ran broken = judge("{\n");
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_NE(broken.output.find("results.jsonl:1: "), std::string::npos) << broken.output;
}

} // namespace
} // namespace troupe
