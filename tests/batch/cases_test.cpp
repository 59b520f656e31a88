// Public bug reports as black-box checks, each named by its id: a batch file holds the lines, the
// executable runs it. The list of all ids stands in tests/README.md.

#include "tests/support/batch_folder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>

namespace troupe::test {
namespace {

using Json = nlohmann::json;

const Json kIds = {100, 200, 300, 400};

/// Requests by custom_id, and after run() their answer lines.
class Job {
public:
  Job() { folder_.model = bundled_model(); }

  void completion(const std::string& id, Json body) {
    body.emplace("temperature", 0);
    body.emplace("prompt", "The value of");
    add(id, "/v1/completions", body);
  }
  void chat(const std::string& id, Json body) {
    body.emplace("temperature", 0);
    body.emplace("messages", Json::array({{{"role", "user"}, {"content", "Hello."}}}));
    add(id, "/v1/chat/completions", body);
  }
  /// Lines are followed by LF; this is taken as given.
  void raw(const std::string& line) { input_ += line; }
  void use_null_device() { folder_.use_null_device(); }
  void set(const std::string& key_and_value) {
    folder_.flags.insert(folder_.flags.end(), {"--set", key_and_value});
  }

  /// @return the exit code
  int run() {
    folder_.write_input(input_);
    const ProcessEnd end = folder_.run();
    err_ = end.err;
    for (const char* name : {"out.jsonl", "out.errors.jsonl"}) {
      for (const std::string& text : app::lines_of(folder_.files.read(name))) {
        const Json line = Json::parse(text);
        ++lines_;
        in_errors_ += name == std::string("out.errors.jsonl") ? 1 : 0;
        if (line["custom_id"].is_string()) answers_[line["custom_id"]] = line;
      }
    }
    return end.code;
  }

  const Json& line(const std::string& id) const { return answers_.at(id); }
  std::int64_t status(const std::string& id) const { return line(id)["response"]["status_code"]; }
  Json error(const std::string& id) const { return line(id)["response"]["body"]["error"]; }
  Json choices(const std::string& id) const { return line(id)["response"]["body"]["choices"]; }
  std::string text(const std::string& id) const { return choices(id)[0]["text"]; }
  Json message(const std::string& id) const { return choices(id)[0]["message"]; }
  Json usage(const std::string& id) const { return line(id)["response"]["body"]["usage"]; }
  int lines() const { return lines_; }
  int in_errors() const { return in_errors_; }
  const std::string& err() const { return err_; }
  std::string output() const { return folder_.files.read("out.jsonl"); }
  std::string errors() const { return folder_.files.read("out.errors.jsonl"); }

private:
  void add(const std::string& id, const std::string& url, const Json& body) {
    const Json line = {{"custom_id", id}, {"method", "POST"}, {"url", url}, {"body", body}};
    input_ += line.dump() + "\n";
  }

  BatchFolder folder_;
  std::string input_;
  std::string err_;
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

/// Runs the job with one more line, which must be served whatever happens to the others.
void expect_next_served(Job& job) {
  job.completion("next", {{"max_tokens", 2}});
  EXPECT_EQ(job.run(), 3) << job.err();
  EXPECT_EQ(job.status("next"), 200);
}

// -- 4a: fields of requests ----------------------------------------------------------------------

TEST(Cases, A1_NullIsAsAbsent) {
  Job job;
  job.completion("absent", {});
  job.completion("null", {{"max_tokens", nullptr}, {"stop", nullptr}, {"seed", nullptr}});
  EXPECT_EQ(job.run(), 0) << job.err();
  EXPECT_EQ(job.text("null"), job.text("absent"));
  EXPECT_EQ(job.usage("null"), job.usage("absent"));
}

TEST(Cases, A2_APromptAboveTheContextNamesBoth) {
  Job job;
  job.completion("no_room", {{"prompt", Json(std::vector<int>(16384, 5))}, {"max_tokens", 1}});
  job.completion("above", {{"prompt", Json(std::vector<int>(16400, 5))}, {"max_tokens", 1}});
  expect_next_served(job);
  expect_refused(job, "above", "prompt", {"16400", "16384"});
  expect_refused(job, "no_room", "prompt", {"16384"});
}

TEST(Cases, A3_EchoIsRefusedByItsName) {
  Job job;
  job.completion("echo", {{"echo", true}, {"max_tokens", 0}, {"logprobs", 1}});
  job.completion("echo_only", {{"echo", true}, {"max_tokens", 4}});
  expect_next_served(job);
  EXPECT_EQ(job.status("echo"), 400);
  expect_refused(job, "echo_only", "echo", {"echo"});
}

TEST(Cases, A4_NothingToReadOrToWriteIsRefused) {
  Job job;
  job.completion("zero", {{"max_tokens", 0}});
  job.chat("zero_chat", {{"max_tokens", 0}});
  job.completion("empty", {{"prompt", ""}});
  job.completion("empty_ids", {{"prompt", Json::array()}});
  job.completion("empty_one_of_two", {{"prompt", {"a", ""}}});
  job.chat("no_messages", {{"messages", Json::array()}});
  expect_next_served(job);
  for (const char* id : {"zero", "zero_chat"})
    expect_refused(job, id, "max_tokens");
  for (const char* id : {"empty", "empty_ids"})
    expect_refused(job, id, "prompt");
  EXPECT_EQ(job.status("empty_one_of_two"), 400);
  expect_refused(job, "no_messages", "messages");
}

/// The answer to kIds without stop strings, at least 20 bytes.
std::string whole_answer() {
  Job whole;
  whole.completion("ids", {{"prompt", kIds}, {"max_tokens", 40}, {"ignore_eos", true}});
  EXPECT_EQ(whole.run(), 0) << whole.err();
  return whole.text("ids");
}

void ask_with_stop(Job& job, const std::string& id, const Json& stop) {
  job.completion(id, {{"prompt", kIds}, {"max_tokens", 40}, {"ignore_eos", true}, {"stop", stop}});
}

/// Every place of the answer where `bytes` bytes are whole characters is a stop string.
void expect_stops_of(std::size_t bytes) {
  const std::string text = whole_answer();
  ASSERT_GT(text.size(), 20U);
  Job job;
  std::map<std::string, std::string> expected;
  for (std::size_t at = 1; at + bytes < text.size(); at += 2) {
    const std::string stop = text.substr(at, bytes);
    if ((stop[0] & 0xC0) == 0x80 || (text[at + bytes] & 0xC0) == 0x80) continue;
    const std::string id = fmt::format("at_{}", at);
    expected[id] = text.substr(0, text.find(stop));
    ask_with_stop(job, id, {stop});
  }
  ASSERT_GT(expected.size(), 3U);
  ASSERT_EQ(job.run(), 0) << job.err();
  for (const auto& [id, before] : expected) {
    EXPECT_EQ(job.text(id), before) << id;
    EXPECT_EQ(job.choices(id)[0]["finish_reason"], "stop") << id;
  }
}

TEST(Cases, A5_NothingOfAStopStringOverSeveralTokensIsWritten) { expect_stops_of(9); }

TEST(Cases, A8_WhatWasHeldBackComesOutAtTheEnd) {
  const std::string text = whole_answer();
  Job job;
  // Each begins with an end of the answer, so that the end is held back, and goes on differently.
  std::vector<std::string> ids;
  for (std::size_t bytes = 1; bytes <= 8; ++bytes) {
    const std::string end = text.substr(text.size() - bytes);
    if ((end[0] & 0xC0) == 0x80) continue;
    ids.push_back(fmt::format("end_{}", bytes));
    ask_with_stop(job, ids.back(), {end + "\r\n\r\n"});
  }
  ask_with_stop(job, "newline", {"\r\n"});
  ASSERT_EQ(job.run(), 0) << job.err();
  for (const std::string& id : ids)
    EXPECT_EQ(job.text(id), text) << id;
  EXPECT_EQ(job.text("newline"), text);
}

TEST(Cases, A9_StopStringsNearTheEndOfReasoningLeaveItWhole) {
  Job plain;
  const Json body = {{"thinking", {{"type", "enabled"}}}, {"max_tokens", 60}};
  plain.chat("plain", body);
  ASSERT_EQ(plain.run(), 0) << plain.err();
  const Json message = plain.message("plain");
  Job job;
  const std::vector<std::string> stops = {"</", "think", "</think>x", "nk>", ">\n", "<"};
  for (const std::string& stop : stops) {
    Json with = body;
    with["stop"] = {stop};
    job.chat(stop, with);
  }
  ASSERT_EQ(job.run(), 0) << job.err();
  for (const std::string& stop : stops) {
    const Json found = job.message(stop);
    EXPECT_EQ(found.value("reasoning_content", Json()), message.value("reasoning_content", Json()))
        << stop;
    const std::string content = message["content"].is_string() ? message["content"] : Json("");
    const std::string now = found["content"].is_string() ? found["content"] : Json("");
    EXPECT_EQ(now, content.substr(0, content.find(stop))) << stop;
  }
}

TEST(Cases, A10_StopStringsHoldForPromptsOfTokenIds) { expect_stops_of(4); }

TEST(Cases, A11_CharactersOverSeveralTokensAreWholeInEveryAnswer) {
  Job job;
  job.use_null_device(); // Draws any token: halves of characters at every place.
  for (int i = 0; i < 200; ++i)
    job.completion(fmt::format("r{}", i),
                   {{"prompt", {100 + i, 7}}, {"max_tokens", 1 + i % 12}, {"ignore_eos", true}});
  ASSERT_EQ(job.run(), 0) << job.err();
  EXPECT_EQ(job.lines(), 200) << "each line was read as strict UTF-8";
  EXPECT_NE(job.output().find("\xEF\xBF\xBD"), std::string::npos) << "no half character was drawn";
}

TEST(Cases, A12_BytesThatNeverBecomeACharacterEndAsOneMark) {
  Job job;
  job.use_null_device();
  for (int i = 0; i < 400; ++i)
    job.completion(fmt::format("r{}", i),
                   {{"prompt", {200 + i, 9}}, {"max_tokens", 1}, {"ignore_eos", true}});
  ASSERT_EQ(job.run(), 0) << job.err();
  int marks = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string text = job.text(fmt::format("r{}", i));
    const std::size_t at = text.find("\xEF\xBF\xBD");
    if (at == std::string::npos) continue;
    ++marks;
    EXPECT_EQ(text.find("\xEF\xBF\xBD", at + 3), std::string::npos)
        << "one token of one started character: " << text;
  }
  EXPECT_GT(marks, 0);
}

TEST(Cases, A19_AnInvalidSchemaOrPatternIsRefused) {
  Job job;
  job.chat("schema", {{"response_format", {{"type", "json_schema"}, {"json_schema", 5}}}});
  job.chat("type", {{"response_format", {{"type", 7}}}});
  job.chat("text", {{"response_format", "json"}});
  job.completion("regex", {{"guided_regex", "("}});
  expect_next_served(job);
  for (const char* id : {"schema", "type", "text", "regex"})
    EXPECT_EQ(job.status(id), 400) << id;
  expect_refused(job, "schema", "response_format.type");
}

TEST(Cases, A20_ASchemaWithALargeMaximumIsRefused) {
  Job job;
  const Json schema = {{"type", "object"},
                       {"properties", {{"a", {{"type", "integer"}, {"maximum", 20000000000}}}}}};
  job.chat("large",
           {{"response_format",
             {{"type", "json_schema"}, {"json_schema", {{"name", "s"}, {"schema", schema}}}}}});
  expect_next_served(job);
  expect_refused(job, "large", "response_format.type");
}

TEST(Cases, A21_ASchemaThatExplodesIsRefusedAtOnce) {
  Job job;
  for (const int depth : {20, 200, 5000}) {
    // As text: each level doubles what a compiler would have to build.
    std::string schema = R"({"type":"string"})";
    for (int level = 0; level < depth; ++level)
      schema = R"({"anyOf":[)" + schema + R"(,{"type":"null"}]})";
    job.raw(fmt::format(R"({{"custom_id":"deep{}","method":"POST","url":"/v1/chat/completions",)"
                        R"("body":{{"messages":[{{"role":"user","content":"a"}}],)"
                        R"("response_format":{{"type":"json_schema","json_schema":)"
                        R"({{"name":"s","schema":{}}}}}}}}})"
                        "\n",
                        depth, schema));
  }
  expect_next_served(job);
  expect_refused(job, "deep20", "response_format.type");
  EXPECT_EQ(job.in_errors(), 3);
}

TEST(Cases, A22_JsonObjectIsRefused) {
  Job job;
  job.chat("object", {{"response_format", {{"type", "json_object"}}}});
  job.chat("text", {{"response_format", {{"type", "text"}}}, {"max_tokens", 2}});
  expect_next_served(job);
  expect_refused(job, "object", "response_format.type");
  EXPECT_EQ(job.status("text"), 200);
}

TEST(Cases, A27_BiasBeyondTheVocabularyIsRefused) {
  Job job;
  job.completion("id", {{"logit_bias", {{"191222", 5}}}});
  job.completion("word", {{"logit_bias", {{"AI", 5}}}});
  job.completion("empty", {{"logit_bias", Json::object()}, {"max_tokens", 2}});
  expect_next_served(job);
  expect_refused(job, "id", "logit_bias");
  expect_refused(job, "word", "logit_bias");
  EXPECT_EQ(job.status("empty"), 200);
}

TEST(Cases, A28_StopIdsBeyondTheVocabularyAreRefusedAndNeighboursUnchanged) {
  Job alone;
  alone.completion("neighbour", {{"max_tokens", 12}});
  ASSERT_EQ(alone.run(), 0);
  Job job;
  job.completion("neighbour", {{"max_tokens", 12}});
  for (const std::int64_t id : {std::int64_t{151645}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    job.completion(fmt::format("stop_{}", id), {{"stop_token_ids", {id}}, {"min_tokens", 2}});
  }
  expect_next_served(job);
  expect_refused(job, "stop_151645", "stop_token_ids[0]", {"151645", "4095"});
  EXPECT_EQ(job.status("stop_-1"), 400);
  EXPECT_EQ(job.status("stop_1099511627776"), 400);
  EXPECT_EQ(job.text("neighbour"), alone.text("neighbour"));
}

TEST(Cases, A29_PromptLogprobsAreRefused) {
  Job job;
  job.completion("all", {{"prompt_logprobs", -1}, {"prompt", Json(std::vector<int>(8000, 5))}});
  expect_next_served(job);
  expect_refused(job, "all", "prompt_logprobs");
}

TEST(Cases, A31_LogprobsWithoutTopGiveTheChosenToken) {
  Job job;
  job.chat("logprobs", {{"logprobs", true}, {"max_tokens", 4}});
  ASSERT_EQ(job.run(), 0) << job.err();
  const Json rows = job.choices("logprobs")[0]["logprobs"]["content"];
  EXPECT_EQ(rows.size(), job.usage("logprobs")["completion_tokens"]);
  EXPECT_GT(rows.size(), 0U);
  for (const Json& row : rows) {
    EXPECT_LE(row["logprob"].get<double>(), 0.0);
    EXPECT_TRUE(row["top_logprobs"].empty());
  }
}

/// More than one choice of a prompt is refused, with the number and the limit.
void expect_choices_refused(std::int64_t count) {
  Job job;
  job.chat("chat", {{"n", count}, {"seed", 1}, {"temperature", 1}});
  job.completion("completion", {{"n", count}, {"seed", 1}, {"temperature", 1}});
  expect_next_served(job);
  expect_refused(job, "chat", "n", {fmt::format("{}", count), "1"});
  expect_refused(job, "completion", "n", {fmt::format("{}", count), "1"});
}

TEST(Cases, A32_EightChoicesAreRefused) { expect_choices_refused(8); }

TEST(Cases, A33_ThreeSeededChoicesAreRefused) { expect_choices_refused(3); }

TEST(Cases, A34_ManyChoicesAreRefused) { expect_choices_refused(512); }

TEST(Cases, A43_AStopStringThatTheTokenizerSplitsIsFound) {
  // Of every length, so that most begin and end inside a token.
  for (const std::size_t bytes : {2U, 6U, 13U})
    expect_stops_of(bytes);
}

// -- 4b: files -----------------------------------------------------------------------------------

TEST(Cases, B2_BlankLinesAreSkippedAndNotCounted) {
  Job job;
  job.raw("\n");
  job.completion("one", {{"max_tokens", 2}});
  job.raw("\n\n   \n\t\r\n");
  job.completion("two", {{"max_tokens", 2}});
  job.raw("\n\n");
  EXPECT_EQ(job.run(), 0) << job.err();
  EXPECT_EQ(job.lines(), 2);
}

TEST(Cases, B3_TheLastLineNeedsNoNewline) {
  Job job;
  job.completion("first", {{"max_tokens", 2}});
  job.raw(R"({"custom_id":"last","method":"POST","url":"/v1/completions",)"
          R"("body":{"prompt":"a","max_tokens":2}})");
  EXPECT_EQ(job.run(), 0) << job.err();
  EXPECT_EQ(job.status("last"), 200);
  EXPECT_EQ(job.lines(), 2);
}

TEST(Cases, B5_AnIdIsGivenOnceAndIsText) {
  Job job;
  job.raw("\n");
  job.completion("same", {{"max_tokens", 2}});
  job.completion("same", {{"max_tokens", 9}});
  job.completion("same", {{"max_tokens", 9}});
  job.raw(R"({"custom_id":7,"method":"POST","url":"/v1/completions","body":{"prompt":"a"}})"
          "\n");
  job.raw(R"({"method":"POST","url":"/v1/completions","body":{"prompt":"a"}})"
          "\n");
  job.completion(std::string(10'000, 'x'), {});
  EXPECT_EQ(job.run(), 3) << job.err();
  EXPECT_EQ(job.lines(), 6);
  EXPECT_EQ(job.in_errors(), 5);
  const std::string errors = job.errors();
  for (const char* words : {"line 3", "line 4", "line 2", "duplicate_custom_id",
                            "invalid_custom_id", "\"line\":5", "\"line\":6", "\"line\":7"})
    EXPECT_NE(errors.find(words), std::string::npos) << words << "\n" << errors.substr(0, 3000);
}

TEST(Cases, B10_AnEmptyInputEndsAtOnce) {
  for (const char* text : {"", "\n\n", "\xEF\xBB\xBF"}) {
    Job job;
    job.raw(text);
    EXPECT_EQ(job.run(), 0) << job.err();
    EXPECT_EQ(job.lines(), 0);
  }
}

TEST(Cases, B11_OneOverlongPromptIsOneErrorLine) {
  Job job;
  for (int i = 0; i < 20; ++i)
    job.completion(fmt::format("before{}", i), {{"max_tokens", 2}});
  job.completion("long", {{"prompt", Json(std::vector<int>(20'000, 5))}});
  for (int i = 0; i < 20; ++i)
    job.completion(fmt::format("after{}", i), {{"max_tokens", 2}});
  EXPECT_EQ(job.run(), 3) << job.err();
  EXPECT_EQ(job.in_errors(), 1);
  EXPECT_EQ(job.lines(), 41);
}

TEST(Cases, B13_ALineWithoutMethodSaysSo) {
  Job job;
  job.completion("good", {{"max_tokens", 2}});
  job.raw(R"({"custom_id":"no_method","url":"/v1/completions","body":{"prompt":"a"}})"
          "\n");
  EXPECT_EQ(job.run(), 3) << job.err();
  EXPECT_EQ(job.line("no_method")["line"], 2);
  const std::string message = job.line("no_method")["error"]["message"];
  EXPECT_NE(message.find("method"), std::string::npos) << message;
}

TEST(Cases, B15_LinesWhoseTimeIsOverEndAsErrorsAndFinishedOnesStay) {
  Job job;
  job.use_null_device();
  job.set("cost_model.null_speed=1.0");
  job.set("limits.request_timeout_s=2");
  for (int i = 0; i < 6; ++i) {
    job.completion(fmt::format("short{}", i), {{"max_tokens", 2}, {"ignore_eos", true}});
    job.completion(fmt::format("long{}", i), {{"max_tokens", 16'000}, {"ignore_eos", true}});
  }
  EXPECT_EQ(job.run(), 3) << job.err();
  EXPECT_EQ(job.lines(), 12);
  EXPECT_EQ(job.in_errors(), 6);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(job.status(fmt::format("short{}", i)), 200);
    EXPECT_EQ(job.status(fmt::format("long{}", i)), 504);
  }
}

TEST(Cases, B14_WhatIsNotStatus200IsInTheErrorsFile) {
  Job job;
  job.completion("good", {{"max_tokens", 2}});
  job.completion("bad", {{"max_tokens", 0}});
  job.raw("no json\n");
  EXPECT_EQ(job.run(), 3) << job.err();
  EXPECT_EQ(job.in_errors(), 2);
  EXPECT_EQ(job.line("good")["response"]["status_code"], 200);
  EXPECT_TRUE(job.line("good")["error"].is_null());
  EXPECT_EQ(app::lines_of(job.output()).size(), 1U);
}

} // namespace
} // namespace troupe::test
