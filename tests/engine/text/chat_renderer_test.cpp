// Goal: prompts and ids equal those of DeepSeek's own converter, and what it refuses is refused.
// Method: recorded requests with prompt and ids; the bundled model's evaluation set.

#include "engine/text/chat_renderer.hpp"
#include "engine/text/request_body.hpp"
#include "tests/engine/text/text_fixtures.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace troupe::text {
namespace {

ChatFormat format_from(const std::string& path) {
  Result<ChatFormat> format = parse_chat_format(read_fixture(path), path);
  EXPECT_TRUE(format.ok()) << (format.ok() ? "" : format.error().message);
  return *format;
}

/// The request of a recorded row, with its options applied to the rules.
BodyOutcome parse_row(const JsonValue& row, const ChatFormat& format) {
  BodyRules rules;
  rules.strictness = Strictness::render;
  rules.format = &format;
  if (const JsonValue* options = row.find("options")) {
    if (const JsonValue* value = options->find("reject_missing_reasoning")) {
      rules.reject_missing_reasoning = *value->boolean();
    }
    if (const JsonValue* value = options->find("default_thinking_mode")) {
      rules.thinking_default = *value->boolean();
    }
  }
  return parse_request_body(Endpoint::chat_completions, python_json(*row.find("request")), rules);
}

bool wants(const JsonValue& parsing, const char* key) { return *parsing.find(key)->boolean(); }

/// Whether the parser options are those recorded with the row.
void expect_parsing(const JsonValue& row, const ParserOptions& options) {
  const JsonValue& parsing = *row.find("parsing");
  if (wants(parsing, "parse_json_output")) return; // Answers are not held to a format here.
  EXPECT_EQ(options.parse_tool_calls, wants(parsing, "parse_tool_calls"));
  const std::map<std::string, InitialStage> stages = {
      {"ReasoningStart", InitialStage::reasoning},
      {"ReasoningContinuation", InitialStage::reasoning_continuation},
      {"ContentContinuation", InitialStage::answer_continuation}};
  const std::string* stage = parsing.find("thinking_initial_stage")->string();
  InitialStage expected = stage == nullptr ? InitialStage::answer : stages.at(*stage);
  if (wants(parsing, "starts_in_tool_calls")) expected = InitialStage::tool_calls;
  EXPECT_EQ(options.initial_stage, expected);
}

struct Counts {
  int equal = 0;
  int refused = 0;
  std::set<std::string> different; ///< Rows where ours differs on purpose.
};

/// Rows whose differences from the recording are decided: other model names are accepted, unknown
/// fields are not.
const std::set<std::string> kModelNames = {"s195"};
const std::set<std::string> kUnknownFields = {"s131"};

Counts check_rows(const std::vector<JsonValue>& rows, const ChatFormat& format,
                  const Tokenizer& tokenizer) {
  Counts counts;
  for (const JsonValue& row : rows) {
    const std::string id = text_of(row, "id");
    SCOPED_TRACE(id);
    const JsonValue* images = row.find("images");
    if (text_of(row, "api") != "chat" || images != nullptr) continue;
    if (text_of(row, "model") != "DeepSeek-V4.1-Flash") continue;
    const BodyOutcome outcome = parse_row(row, format);
    if (kUnknownFields.contains(id) || kModelNames.contains(id)) {
      EXPECT_EQ(outcome.ok(), kModelNames.contains(id));
      counts.different.insert(id);
      continue;
    }
    const bool accepted = *row.find("ok")->boolean();
    EXPECT_EQ(outcome.ok(), accepted) << (outcome.ok() ? "" : outcome.error->message);
    if (!accepted || !outcome.ok()) {
      if (outcome.error) {
        EXPECT_EQ(outcome.error->status, 400);
        EXPECT_FALSE(outcome.error->param.empty()) << outcome.error->message;
      }
      ++counts.refused;
      continue;
    }
    const auto prompt = render_chat(outcome.body.chat, format);
    EXPECT_TRUE(prompt.ok());
    if (!prompt.ok()) continue;
    EXPECT_EQ(prompt_text(*prompt), text_of(row, "prompt"));
    const auto ids = tokenizer.encode(*prompt);
    EXPECT_TRUE(ids.ok());
    EXPECT_EQ(ids.ok() ? *ids : std::vector<std::int32_t>{}, ids_of(row, "ids"));
    expect_parsing(row, parser_options(outcome.body.chat));
    ++counts.equal;
  }
  return counts;
}

TEST(ChatRenderer, CommittedRows) {
  const auto rows = read_rows(vector_path("render.jsonl"));
  const Counts counts = check_rows(rows, format_from(vector_path("encoding.json")),
                                   *tokenizer_from(nano_folder() + "/tokenizer.json"));
  EXPECT_GE(counts.equal, 30);
  EXPECT_GE(counts.refused, 30);
}

TEST(ChatRenderer, AllRecordedChatRowsOfV41) {
  const auto rows = full_size_path("goldens/recipe/render.jsonl.gz");
  if (!rows) GTEST_SKIP() << "no shared folder, or sanitizers";
  const ChatFormat format = format_from(*shared_path("goldens/recipe/encoding-v4.1.json"));
  const auto tokenizer = tokenizer_from(*shared_path("tokenizer/deepseek_v4.1_tokenizer.json.gz"));
  const Counts counts = check_rows(read_rows(*rows), format, *tokenizer);
  EXPECT_EQ(counts.different, (std::set<std::string>{"s131", "s195"}));
  EXPECT_EQ(counts.equal, 121);
  EXPECT_EQ(counts.refused, 49);
}

TEST(ChatRenderer, TheEvaluationSetRendersToItsPrompts) {
  const std::string folder = nano_folder();
  const ChatFormat format = format_from(folder + "/encoding.json");
  const auto tokenizer = tokenizer_from(folder + "/tokenizer.json");
  const auto lines = read_rows(folder + "/eval.batch.jsonl");
  const auto cases = read_rows(folder + "/eval.jsonl");
  ASSERT_EQ(lines.size(), cases.size());
  BodyRules rules;
  rules.format = &format;
  rules.vocab = tokenizer->vocab_size();
  int chats = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    SCOPED_TRACE(i);
    const bool is_chat = text_of(lines[i], "url") == "/v1/chat/completions";
    const auto endpoint = is_chat ? Endpoint::chat_completions : Endpoint::completions;
    const BodyOutcome outcome =
        parse_request_body(endpoint, python_json(*lines[i].find("body")), rules);
    ASSERT_TRUE(outcome.ok()) << outcome.error->message;
    EXPECT_EQ(outcome.body.max_tokens, 512);
    EXPECT_EQ(outcome.body.temperature, 0.0);
    const std::string prompt = text_of(cases[i], "prompt");
    Result<std::vector<std::int32_t>> ids = tokenizer->encode("", AddedTokens::match);
    if (is_chat) {
      const auto segments = render_chat(outcome.body.chat, format);
      ASSERT_TRUE(segments.ok());
      EXPECT_EQ(prompt_text(*segments), prompt);
      ids = tokenizer->encode(*segments);
      ++chats;
    } else {
      ASSERT_EQ(outcome.body.prompts.size(), 1U);
      EXPECT_EQ(outcome.body.prompts[0].text, prompt);
      ids = tokenizer->encode(outcome.body.prompts[0].text, AddedTokens::match);
    }
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(static_cast<double>(ids->size()), cases[i].find("prompt_tokens")->number());
  }
  EXPECT_GT(chats, 250);
}

TEST(ChatRenderer, OtherDialectsAreRefused) {
  ChatFormat format = format_from(vector_path("encoding.json"));
  format.dialect = Dialect::v4;
  ChatRequest request;
  request.messages.push_back({});
  const auto prompt = render_chat(request, format);
  ASSERT_FALSE(prompt.ok());
  EXPECT_EQ(prompt.error().code, ErrorCode::unsupported);
}

} // namespace
} // namespace troupe::text
