// Public bug reports as black-box checks: one batch file holds the lines, the executable runs it,
// and each test looks at the answers to its lines. Which report is which: tests/README.md.

#include "tests/actors/app/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <sys/wait.h>

namespace troupe::app {
namespace {

using Json = nlohmann::json;

const std::string kModel = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";
const Json kIds = {100, 200, 300, 400};

/// Requests by custom_id, and after run() their answer lines.
class Job {
public:
  void completion(const std::string& id, Json body) {
    body["temperature"] = 0;
    if (!body.contains("prompt")) body["prompt"] = "The value of";
    add(id, "/v1/completions", body);
  }
  void chat(const std::string& id, Json body) {
    body["temperature"] = 0;
    if (!body.contains("messages")) {
      body["messages"] = {{{"role", "user"}, {"content", "Hello."}}};
    }
    add(id, "/v1/chat/completions", body);
  }
  /// Lines are followed by LF; the last one as given.
  void raw(const std::string& line) { input_ += line; }

  /// @return the exit code
  int run(const std::string& flags = "") {
    folder_.write("in.jsonl", input_);
    const std::string command = "cd '" + folder_.path("") +
                                "' && '" TROUPE_EXECUTABLE
                                "' batch --quiet --restart --input in.jsonl --output out.jsonl "
                                "--model '" +
                                kModel + "' " + flags + " </dev/null >stdout 2>stderr";
    const int state = std::system(command.c_str());
    for (const char* name : {"out.jsonl", "out.errors.jsonl"}) {
      if (!folder_.has(name)) continue;
      for (const std::string& text : lines_of(folder_.read(name))) {
        const Json line = Json::parse(text);
        ++lines_;
        in_errors_ += name == std::string("out.errors.jsonl") ? 1 : 0;
        if (line["custom_id"].is_string()) answers_[line["custom_id"]] = line;
      }
    }
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
  }

  const Json& line(const std::string& id) const { return answers_.at(id); }
  std::int64_t status(const std::string& id) const { return line(id)["response"]["status_code"]; }
  Json error(const std::string& id) const { return line(id)["response"]["body"]["error"]; }
  Json choices(const std::string& id) const { return line(id)["response"]["body"]["choices"]; }
  std::string text(const std::string& id) const { return choices(id)[0]["text"]; }
  Json usage(const std::string& id) const { return line(id)["response"]["body"]["usage"]; }
  int lines() const { return lines_; }
  int in_errors() const { return in_errors_; }
  std::string stderr_text() const { return folder_.read("stderr"); }

private:
  void add(const std::string& id, const std::string& url, const Json& body) {
    const Json line = {{"custom_id", id}, {"method", "POST"}, {"url", url}, {"body", body}};
    input_ += line.dump() + "\n";
  }

  TemporaryFolder folder_;
  std::string input_;
  std::map<std::string, Json> answers_;
  int lines_ = 0;
  int in_errors_ = 0;
};

/// Status 400 that names the parameter, and the words its message must hold.
void expect_refused(const Job& job, const std::string& id, const std::string& param,
                    const std::vector<std::string>& words = {}) {
  EXPECT_EQ(job.status(id), 400) << id;
  EXPECT_EQ(job.error(id)["param"], param) << id;
  const std::string message = job.error(id)["message"];
  for (const std::string& word : words)
    EXPECT_NE(message.find(word), std::string::npos) << id << ": " << message;
}

TEST(Cases, LengthsOutOfBounds) {
  Job job;
  job.completion("absent", {});
  job.completion("null", {{"max_tokens", nullptr}});
  job.completion("too_long", {{"prompt", Json(std::vector<int>(16400, 5))}, {"max_tokens", 1}});
  job.completion("zero", {{"max_tokens", 0}});
  job.chat("zero_chat", {{"max_tokens", 0}});
  job.completion("empty", {{"prompt", ""}});
  job.completion("empty_ids", {{"prompt", Json::array()}});
  job.chat("no_messages", {{"messages", Json::array()}});
  job.completion("after", {{"max_tokens", 3}});
  EXPECT_EQ(job.run(), 3) << job.stderr_text();
  EXPECT_EQ(job.text("null"), job.text("absent"));
  EXPECT_EQ(job.usage("null"), job.usage("absent"));
  expect_refused(job, "too_long", "prompt", {"16400", "16384"});
  for (const char* id : {"zero", "zero_chat"})
    expect_refused(job, id, "max_tokens");
  for (const char* id : {"empty", "empty_ids"})
    expect_refused(job, id, "prompt");
  expect_refused(job, "no_messages", "messages");
  EXPECT_EQ(job.status("after"), 200) << "one line that cannot run stops no other";
}

TEST(Cases, FieldsThatCrashedOthers) {
  Job job;
  job.completion("bias_id", {{"logit_bias", {{"191222", 5}}}});
  job.completion("bias_word", {{"logit_bias", {{"AI", 5}}}});
  job.completion("stop_id", {{"stop_token_ids", {151645}}, {"min_tokens", 2}});
  job.completion("prompt_logprobs", {{"prompt_logprobs", -1}});
  job.chat("many", {{"n", 8}});
  job.completion("very_many", {{"n", 512}});
  job.completion("echo", {{"echo", true}, {"logprobs", 1}});
  job.chat("schema", {{"response_format", {{"type", "json_schema"}, {"json_schema", 5}}}});
  job.chat("object", {{"response_format", {{"type", "json_object"}}}});
  job.chat("logprobs", {{"logprobs", true}, {"max_tokens", 4}});
  EXPECT_EQ(job.run(), 3) << job.stderr_text();
  expect_refused(job, "bias_id", "logit_bias");
  expect_refused(job, "bias_word", "logit_bias");
  expect_refused(job, "stop_id", "stop_token_ids[0]", {"151645", "4095"});
  expect_refused(job, "prompt_logprobs", "prompt_logprobs");
  expect_refused(job, "many", "n", {"8", "1"});
  expect_refused(job, "very_many", "n", {"512"});
  expect_refused(job, "echo", "echo");
  expect_refused(job, "schema", "response_format.type");
  expect_refused(job, "object", "response_format.type");
  ASSERT_EQ(job.status("logprobs"), 200);
  const Json rows = job.choices("logprobs")[0]["logprobs"]["content"];
  EXPECT_EQ(rows.size(), job.usage("logprobs")["completion_tokens"]);
  for (const Json& row : rows) {
    EXPECT_LE(row["logprob"].get<double>(), 0.0);
    EXPECT_TRUE(row["top_logprobs"].empty());
  }
}

TEST(Cases, StopStringsOnEveryPath) {
  Job whole;
  whole.completion("ids", {{"prompt", kIds}, {"max_tokens", 40}, {"ignore_eos", true}});
  ASSERT_EQ(whole.run(), 0) << whole.stderr_text();
  const std::string text = whole.text("ids");
  ASSERT_GT(text.size(), 20U);

  Job job;
  std::map<std::string, std::string> expected;
  for (std::size_t at = 1; at + 9 <= text.size(); at += 3) {
    const std::string stop = text.substr(at, 9); // Longer than a token, at any place in one.
    if ((stop[0] & 0xC0) == 0x80 || (text[at + 9] & 0xC0) == 0x80) continue;
    const std::string id = "at_" + std::to_string(at);
    expected[id] = text.substr(0, text.find(stop));
    job.completion(id,
                   {{"prompt", kIds}, {"max_tokens", 40}, {"ignore_eos", true}, {"stop", {stop}}});
  }
  job.completion("other", {{"prompt", kIds},
                           {"max_tokens", 40},
                           {"ignore_eos", true},
                           {"stop", {"beta gamma", "\r\n\r\n"}}});
  ASSERT_GT(expected.size(), 3U);
  ASSERT_EQ(job.run(), 0) << job.stderr_text();
  for (const auto& [id, before] : expected) {
    EXPECT_EQ(job.text(id), before) << id;
    EXPECT_EQ(job.choices(id)[0]["finish_reason"], "stop") << id;
  }
  EXPECT_EQ(job.text("other"), text) << "held-back text comes out at the end";
}

TEST(Cases, LinesOfAFile) {
  Job job;
  job.completion("one", {{"max_tokens", 2}});
  job.raw("\n\n   \n");
  job.completion("same", {{"max_tokens", 2}});
  job.completion("same", {{"max_tokens", 9}});
  job.raw(R"({"custom_id":"no_method","url":"/v1/completions","body":{"prompt":"a"}})"
          "\n");
  job.raw(R"({"custom_id":7,"method":"POST","url":"/v1/completions","body":{"prompt":"a"}})"
          "\n");
  job.raw(R"({"method":"POST","url":"/v1/completions","body":{"prompt":"a"}})"
          "\n");
  job.completion(std::string(10'000, 'x'), {});
  job.completion("ten_megabytes", {{"user", std::string(10'000'000, 'u')}, {"max_tokens", 2}});
  job.completion("above_the_limit", {{"user", std::string(17'000'000, 'u')}});
  job.raw(R"({"custom_id":"last","method":"POST","url":"/v1/completions",)"
          R"("body":{"prompt":"a","max_tokens":2}})");
  EXPECT_EQ(job.run(), 3) << job.stderr_text();
  EXPECT_EQ(job.lines(), 10) << "blank lines are not counted, every other line ends once";
  for (const char* id : {"one", "ten_megabytes", "last"})
    EXPECT_EQ(job.status(id), 200) << id;
  const std::string duplicate = job.line("same")["error"]["message"];
  EXPECT_EQ(job.line("same")["error"]["code"], "duplicate_custom_id");
  EXPECT_NE(duplicate.find("line 6"), std::string::npos) << duplicate;
  EXPECT_NE(duplicate.find("line 5"), std::string::npos) << duplicate;
  EXPECT_EQ(job.line("no_method")["line"], 7);
  EXPECT_EQ(job.in_errors(), 6) << "nothing but status 200 is in the output file";
}

TEST(Cases, EmptyInputsEnd) {
  Job empty;
  EXPECT_EQ(empty.run(), 0) << empty.stderr_text();
  Job blank;
  blank.raw("\n\n");
  EXPECT_EQ(blank.run(), 0) << blank.stderr_text();
  EXPECT_EQ(blank.lines(), 0);
}

} // namespace
} // namespace troupe::app
