// Goal: every field is honoured or refused by name, and no text makes the reader fail otherwise.
// Method: one small body per rule, both strictness modes, hostile texts.

#include "engine/text/request_body.hpp"
#include "tests/engine/text/text_fixtures.hpp"

#include <gtest/gtest.h>

namespace troupe::text {
namespace {

const ChatFormat& format() {
  static const ChatFormat format =
      parse_chat_format(read_fixture(vector_path("encoding.json")), "encoding.json").value();
  return format;
}

BodyOutcome parse(Endpoint endpoint, const std::string& json,
                  Strictness strictness = Strictness::run) {
  BodyRules rules;
  rules.strictness = strictness;
  rules.format = &format();
  rules.vocab = 1000;
  rules.choices_max = 4;
  return parse_request_body(endpoint, json, rules);
}

/// A chat body with one message and these further members.
BodyOutcome chat(const std::string& members, Strictness strictness = Strictness::run) {
  std::string json = R"({"messages": [{"role": "user", "content": "Hi"}])";
  if (!members.empty()) json.append(", ").append(members);
  return parse(Endpoint::chat_completions, json.append("}"), strictness);
}

BodyOutcome chat_messages(const std::string& messages, Strictness strictness = Strictness::run) {
  return parse(Endpoint::chat_completions, R"({"messages": [)" + messages + "]}", strictness);
}

BodyOutcome completion(const std::string& members) {
  std::string json = "{";
  return parse(Endpoint::completions, json.append(members).append("}"));
}

void expect_refused(const BodyOutcome& outcome, const std::string& param, const std::string& code) {
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->status, 400);
  EXPECT_EQ(outcome.error->param, param) << outcome.error->message;
  EXPECT_EQ(outcome.error->code, code) << outcome.error->message;
  EXPECT_NE(outcome.error->message.find(param), std::string::npos) << outcome.error->message;
}

TEST(RequestBody, AbsentFieldsStayAbsent) {
  const BodyOutcome outcome = chat("");
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.body.model_json, "null");
  EXPECT_FALSE(outcome.body.temperature || outcome.body.top_p || outcome.body.top_k);
  EXPECT_FALSE(outcome.body.seed || outcome.body.max_tokens || outcome.body.priority);
  EXPECT_EQ(outcome.body.top_logprobs, -1);
  EXPECT_TRUE(outcome.body.stop.empty());
  EXPECT_TRUE(outcome.body.chat.thinking);
  EXPECT_EQ(outcome.body.chat.effort, format().effort_default);
}

TEST(RequestBody, NullIsAsAbsent) {
  for (const char* field : {"model",
                            "max_tokens",
                            "max_completion_tokens",
                            "min_tokens",
                            "temperature",
                            "top_p",
                            "top_k",
                            "seed",
                            "stop",
                            "stop_token_ids",
                            "ignore_eos",
                            "logprobs",
                            "top_logprobs",
                            "thinking",
                            "reasoning_effort",
                            "chat_template_kwargs",
                            "tools",
                            "tool_choice",
                            "parallel_tool_calls",
                            "user",
                            "metadata",
                            "priority",
                            "n",
                            "stream",
                            "stream_options",
                            "presence_penalty",
                            "frequency_penalty",
                            "logit_bias",
                            "echo",
                            "best_of",
                            "suffix",
                            "response_format",
                            "store",
                            "service_tier"}) {
    std::string member(1, '"');
    EXPECT_TRUE(chat(member.append(field).append("\": null")).ok()) << field;
  }
  EXPECT_TRUE(completion(R"("prompt": "x", "max_tokens": null, "suffix": null)").ok());
}

TEST(RequestBody, NeutralValuesAreAccepted) {
  EXPECT_TRUE(chat(R"("n": 1, "best_of": 1, "stream": false, "presence_penalty": 0,
                      "frequency_penalty": 0.0, "logit_bias": {}, "echo": false, "store": false,
                      "response_format": {"type": "text"}, "service_tier": "auto")")
                  .ok());
  EXPECT_TRUE(
      completion(R"("prompt": "x", "n": 1, "best_of": 1, "echo": false, "stream": false)").ok());
}

TEST(RequestBody, OtherValuesOfThoseAreRefusedByName) {
  const struct {
    const char *members, *param;
  } kCases[] = {
      {"\"n\": 2", "n"},
      {"\"best_of\": 2", "best_of"},
      {"\"stream\": true", "stream"},
      {"\"presence_penalty\": 1", "presence_penalty"},
      {"\"frequency_penalty\": -0.5", "frequency_penalty"},
      {"\"logit_bias\": {\"5\": 1}", "logit_bias"},
      {"\"echo\": true", "echo"},
      {"\"store\": true", "store"},
      {"\"service_tier\": \"flex\"", "service_tier"},
      {"\"response_format\": {\"type\": \"json_object\"}", "response_format.type"},
      {"\"tool_choice\": \"required\"", "tool_choice"},
  };
  for (const auto& c : kCases)
    expect_refused(chat(c.members), c.param, "unsupported_value");
  expect_refused(chat(R"("suffix": "x")"), "suffix", "unsupported_parameter");
  expect_refused(chat(R"("stream_options": {})"), "stream_options", "unsupported_parameter");
}

TEST(RequestBody, UnknownFieldsNameTheNearest) {
  const BodyOutcome outcome = chat(R"("temprature": 1)");
  expect_refused(outcome, "temprature", "unknown_parameter");
  EXPECT_NE(outcome.error->message.find("`temperature`"), std::string::npos);
  expect_refused(chat_messages(R"({"role": "user", "contents": "x"})"), "messages[0].contents",
                 "unknown_parameter");
  expect_refused(chat(R"("tools": [{"type": "function", "function": {"name": "f", "desc": "x"}}])"),
                 "tools[0].function.desc", "unknown_parameter");
}

TEST(RequestBody, FieldsOfTheOtherUrl) {
  expect_refused(chat(R"("prompt": "x")"), "prompt", "unsupported_parameter");
  expect_refused(completion(R"("prompt": "x", "messages": [])"), "messages",
                 "unsupported_parameter");
  expect_refused(completion(R"("prompt": "x", "thinking": {"type": "enabled"})"), "thinking",
                 "unsupported_parameter");
}

TEST(RequestBody, RangesAndTypes) {
  const struct {
    const char *members, *param, *code;
  } kCases[] = {
      {"\"temperature\": 2.5", "temperature", "invalid_value"},
      {"\"temperature\": -0.1", "temperature", "invalid_value"},
      {"\"temperature\": \"1\"", "temperature", "invalid_type"},
      {"\"temperature\": true", "temperature", "invalid_type"},
      {"\"top_p\": 0", "top_p", "invalid_value"},
      {"\"top_p\": 1.01", "top_p", "invalid_value"},
      {"\"top_k\": -2", "top_k", "invalid_value"},
      {"\"top_k\": 1.5", "top_k", "invalid_value"},
      {"\"seed\": -1", "seed", "invalid_value"},
      {"\"seed\": 9223372036854775808", "seed", "invalid_value"},
      {"\"max_tokens\": 0", "max_tokens", "invalid_value"},
      {"\"max_tokens\": 393217", "max_tokens", "invalid_value"},
      {"\"max_tokens\": 1e400", "", "invalid_json"},
      {"\"max_tokens\": 5, \"max_completion_tokens\": 6", "max_completion_tokens", "invalid_value"},
      {"\"max_tokens\": 5, \"min_tokens\": 6", "min_tokens", "invalid_value"},
      {"\"stop\": [\"\"]", "stop[0]", "invalid_value"},
      {"\"stop\": 5", "stop", "invalid_type"},
      {"\"stop\": [1]", "stop[0]", "invalid_type"},
      {"\"stop_token_ids\": [1000]", "stop_token_ids[0]", "invalid_value"},
      {"\"stop_token_ids\": [-1]", "stop_token_ids[0]", "invalid_value"},
      {"\"ignore_eos\": 1", "ignore_eos", "invalid_type"},
      {"\"logprobs\": 3", "logprobs", "invalid_type"},
      {"\"top_logprobs\": 3", "top_logprobs", "invalid_value"},
      {"\"logprobs\": true, \"top_logprobs\": 21", "top_logprobs", "invalid_value"},
      {"\"priority\": 0.5", "priority", "invalid_value"},
      {"\"user\": 5", "user", "invalid_type"},
      {"\"metadata\": {\"session_id\": 5}", "metadata.session_id", "invalid_type"},
      {"\"reasoning_effort\": \"extreme\"", "reasoning_effort", "invalid_value"},
      {"\"reasoning_effort\": 50", "reasoning_effort", "unsupported_value"},
      {"\"thinking\": {\"type\": \"auto\"}", "thinking.type", "invalid_value"},
      {"\"thinking\": true", "thinking", "invalid_type"},
      {"\"n\": 1.0", "n", "invalid_value"},
  };
  for (const auto& c : kCases)
    expect_refused(chat(c.members), c.param, c.code);
  std::string many = R"("stop": ["a")";
  for (int i = 0; i < 16; ++i)
    many += R"(, "a")";
  expect_refused(chat(many + "]"), "stop", "invalid_value");
}

TEST(RequestBody, ValuesArrive) {
  const BodyOutcome outcome = chat(
      R"("model": "m\u00e9", "temperature": 0.25, "top_p": 0.5, "top_k": -1, "seed": 5,
         "max_completion_tokens": 17, "min_tokens": 3, "stop": ["x", "\n\n"],
         "stop_token_ids": [7, 999], "ignore_eos": true, "logprobs": true, "top_logprobs": 4,
         "user": "u", "metadata": {"session_id": "s", "k": "v"}, "priority": -3,
         "parallel_tool_calls": false)");
  ASSERT_TRUE(outcome.ok()) << outcome.error->message;
  const RequestBody& body = outcome.body;
  EXPECT_EQ(body.model_json, "\"mé\"");
  EXPECT_EQ(body.temperature, 0.25);
  EXPECT_EQ(body.top_p, 0.5);
  EXPECT_EQ(body.top_k, 0);
  EXPECT_EQ(body.seed, 5U);
  EXPECT_EQ(body.max_tokens, 17);
  EXPECT_EQ(body.min_tokens, 3);
  EXPECT_EQ(body.stop, (std::vector<std::string>{"x", "\n\n"}));
  EXPECT_EQ(body.stop_token_ids, (std::vector<std::int32_t>{7, 999}));
  EXPECT_TRUE(body.ignore_eos);
  EXPECT_EQ(body.top_logprobs, 4);
  EXPECT_EQ(body.user, "u");
  EXPECT_EQ(body.session_id, "s");
  EXPECT_EQ(body.priority, -3);
  EXPECT_EQ(chat(R"("logprobs": true)").body.top_logprobs, 0);
  EXPECT_EQ(chat(R"("stop": "one")").body.stop, std::vector<std::string>{"one"});
}

TEST(RequestBody, PromptsInFourShapes) {
  EXPECT_EQ(completion(R"("prompt": "a")").body.prompts.at(0).text, "a");
  const BodyOutcome texts = completion(R"("prompt": ["a", "b"], "logprobs": 0)");
  ASSERT_EQ(texts.body.prompts.size(), 2U);
  EXPECT_EQ(texts.body.prompts[1].text, "b");
  EXPECT_EQ(texts.body.top_logprobs, 0);
  const BodyOutcome ids = completion(R"("prompt": [1, 2, 999])");
  ASSERT_EQ(ids.body.prompts.size(), 1U);
  EXPECT_TRUE(ids.body.prompts[0].is_ids);
  EXPECT_EQ(ids.body.prompts[0].ids, (std::vector<std::int32_t>{1, 2, 999}));
  EXPECT_EQ(completion(R"("prompt": [[1], [2, 3]])").body.prompts.at(1).ids.size(), 2U);
}

TEST(RequestBody, BadPromptsAreRefused) {
  const struct {
    const char *members, *param, *code;
  } kCases[] = {
      {"", "prompt", "missing_required_parameter"},
      {"\"prompt\": null", "prompt", "missing_required_parameter"},
      {"\"prompt\": \"\"", "prompt", "invalid_value"},
      {"\"prompt\": []", "prompt", "invalid_value"},
      {"\"prompt\": [[]]", "prompt[0]", "invalid_value"},
      {"\"prompt\": [\"a\", \"\"]", "prompt[1]", "invalid_value"},
      {"\"prompt\": [\"a\", 1]", "prompt[1]", "invalid_type"},
      {"\"prompt\": [1, \"a\"]", "prompt[1]", "invalid_type"},
      {"\"prompt\": [[1], 2]", "prompt[1]", "invalid_type"},
      {"\"prompt\": [1000]", "prompt[0]", "invalid_value"},
      {"\"prompt\": [-1]", "prompt[0]", "invalid_value"},
      {"\"prompt\": [1.5]", "prompt[0]", "invalid_value"},
      {"\"prompt\": {}", "prompt", "invalid_type"},
      {"\"prompt\": [\"a\", \"b\", \"c\", \"d\", \"e\"]", "prompt", "invalid_value"},
      {"\"prompt\": \"a\", \"logprobs\": 21", "logprobs", "invalid_value"},
      {"\"prompt\": \"a\", \"logprobs\": true", "logprobs", "invalid_type"},
      {"\"prompt\": \"a\", \"top_logprobs\": 1", "top_logprobs", "unsupported_parameter"},
  };
  for (const auto& c : kCases)
    expect_refused(completion(c.members), c.param, c.code);
}

TEST(RequestBody, ThinkingResolves) {
  const auto thinks = [](const std::string& members) {
    const BodyOutcome outcome = chat(members);
    EXPECT_TRUE(outcome.ok()) << outcome.error->message;
    return outcome.body.chat.thinking;
  };
  EXPECT_TRUE(thinks(""));
  EXPECT_FALSE(thinks(R"("thinking": {"type": "disabled"})"));
  EXPECT_TRUE(thinks(R"("thinking": {"type": "enabled"}, "reasoning_effort": "none")"));
  EXPECT_FALSE(thinks(R"("reasoning_effort": "none")"));
  EXPECT_FALSE(thinks(R"("chat_template_kwargs": {"thinking": false})"));
  EXPECT_FALSE(thinks(R"("chat_template_kwargs": {"enable_thinking": false})"));
  EXPECT_TRUE(thinks(R"("chat_template_kwargs": {})"));
  expect_refused(chat(R"("chat_template_kwargs": {"thinking": false, "enable_thinking": true})"),
                 "chat_template_kwargs", "invalid_value");
  expect_refused(chat(R"("chat_template_kwargs": {"thinking": false},
                         "thinking": {"type": "enabled"})"),
                 "chat_template_kwargs", "invalid_value");
  const BodyOutcome most = chat(R"("reasoning_effort": "max")");
  EXPECT_EQ(most.body.chat.effort, 100);
  EXPECT_TRUE(most.body.chat.effort_is_max);
}

TEST(RequestBody, MessagesOfABatchAreStricterThanRendering) {
  const std::string prefix =
      R"({"role": "user", "content": "x"}, {"role": "assistant", "content": "y", "prefix": true})";
  EXPECT_TRUE(chat_messages(prefix, Strictness::render).ok());
  expect_refused(chat_messages(prefix), "messages[1].prefix", "unsupported_value");
  const std::string reminders = R"({"role": "latest_reminder", "content": "x"},
                                   {"role": "latest_reminder", "content": "y"})";
  EXPECT_TRUE(chat_messages(reminders, Strictness::render).ok());
  expect_refused(chat_messages(reminders), "messages[1]", "unsupported_value");
  const std::string misplaced = R"({"role": "user", "content": "x", "tool_call_id": "a"})";
  EXPECT_TRUE(chat_messages(misplaced, Strictness::render).ok());
  expect_refused(chat_messages(misplaced), "messages[0].tool_call_id", "unsupported_parameter");
  const std::string strict = R"("tools": [{"type": "function", "function": {"name": "f",
    "strict": true, "parameters": {"type": "object", "properties": {}}}}])";
  EXPECT_TRUE(chat(strict, Strictness::render).ok());
  expect_refused(chat(strict), "tools[0].function.strict", "unsupported_value");
}

TEST(RequestBody, BadMessagesAreRefused) {
  const std::string user = R"({"role": "user", "content": "x"})";
  const std::string call = R"({"id": "a", "type": "function",
                               "function": {"name": "f", "arguments": "{}"}})";
  const std::string calls =
      user + R"(, {"role": "assistant", "content": "", "tool_calls": [)" + call + "]}";
  const struct {
    std::string messages, param;
  } kCases[] = {
      {"", "messages"},
      {"\"x\"", "messages[0]"},
      {R"({"content": "x"})", "messages[0].role"},
      {R"({"role": "developer", "content": "x"})", "messages[0].role"},
      {R"({"role": "critic", "content": "x"})", "messages[0].role"},
      {R"({"role": "user"})", "messages[0].content"},
      {R"({"role": "user", "content": 5})", "messages[0].content"},
      {R"({"role": "user", "content": [5]})", "messages[0].content[0]"},
      {R"({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]})",
       "messages[0].content[0].type"},
      {R"({"role": "user", "content": [{"type": "text"}]})", "messages[0].content[0].text"},
      {user + R"(, {"role": "assistant"})", "messages[1].content"},
      {user + R"(, {"role": "assistant", "content": "", "tool_calls": []})",
       "messages[1].tool_calls"},
      {R"({"role": "tool", "tool_call_id": "a", "content": "x"})", "messages[0]"},
      {calls, "messages[1].tool_calls"},
      {calls + ", " + user, "messages[1].tool_calls"},
      {calls + R"(, {"role": "tool", "tool_call_id": "b", "content": "x"})",
       "messages[2].tool_call_id"},
      {user + R"(, {"role": "assistant", "content": "", "tool_calls": [)" + call + ", " + call +
           "]}",
       "messages[1].tool_calls[1].id"},
  };
  for (const auto& c : kCases) {
    const BodyOutcome outcome = chat_messages(c.messages);
    ASSERT_FALSE(outcome.ok()) << c.messages;
    EXPECT_EQ(outcome.error->param, c.param) << outcome.error->message;
  }
  EXPECT_TRUE(
      chat_messages(calls + R"(, {"role": "tool", "tool_call_id": "a", "content": "x"})").ok());
}

TEST(RequestBody, WithoutAChatFormatOnlyCompletionsAreServed) {
  const BodyRules rules;
  const std::string body = R"({"messages": [{"role": "user", "content": "x"}]})";
  const BodyOutcome outcome = parse_request_body(Endpoint::chat_completions, body, rules);
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.error->message.find("encoding.json"), std::string::npos);
  EXPECT_TRUE(parse_request_body(Endpoint::completions, R"({"prompt": "x"})", rules).ok());
}

TEST(RequestBody, HostileTextsAreErrors) {
  std::string deep(200000, '[');
  for (const std::string& json :
       {std::string(), std::string("x"), std::string("[]"), std::string("null"), deep,
        std::string("{\"messages\": ").append(deep), std::string("{\"messages\": \"\xFF\"}"),
        std::string("{\"a\": \"\\ud800\"}"), std::string("\xEF\xBB\xBF{}"),
        std::string("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]} x"),
        std::string("{\0}", 3)}) {
    EXPECT_FALSE(parse(Endpoint::chat_completions, json).ok());
    EXPECT_FALSE(parse(Endpoint::completions, json).ok());
  }
  std::string wide = "{";
  for (int i = 0; i < 200000; ++i)
    wide += "\"k" + std::to_string(i) + "\":null,";
  EXPECT_TRUE(parse(Endpoint::completions, wide + "\"prompt\":\"x\"}").ok());
}

TEST(RequestBody, EveryTruncationIsRefused) {
  const std::string whole = R"({"messages": [{"role": "user", "content": "Hé"}],
    "tools": [{"type": "function", "function": {"name": "f"}}], "seed": 12})";
  ASSERT_TRUE(parse(Endpoint::chat_completions, whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parse(Endpoint::chat_completions, whole.substr(0, size)).ok()) << size;
  }
}

TEST(ChatFormat, EveryFlawNamesFileAndKey) {
  const std::string good = read_fixture(vector_path("encoding.json"));
  const struct {
    const char *from, *to, *key;
  } kFlaws[] = {
      {"\"v4.1\"", "\"v9\"", "dialect"},
      {"\"dialect\"", "\"dialekt\"", "dialekt"},
      {"{n}", "n", "effort_line"},
      {"\"minimal\": 50", "\"minimal\": 101", "effort_names.minimal"},
      {"\"minimal\": 50", "\"minimal\": \"50\"", "effort_names.minimal"},
      {"\"effort_default\": 75", "\"effort_default\": 0", "effort_default"},
      {"\"effort_default\": 75,", "", "effort_default"},
      {"\"tools_footer\": \"", "\"tools_footer\": 5, \"tools_header\": \"", "tools_header"},
  };
  for (const auto& flaw : kFlaws) {
    std::string json = good;
    const auto at = json.find(flaw.from);
    ASSERT_NE(at, std::string::npos) << flaw.from;
    json.replace(at, std::string(flaw.from).size(), flaw.to);
    const auto result = parse_chat_format(json, "m/encoding.json");
    ASSERT_FALSE(result.ok()) << flaw.to;
    EXPECT_TRUE(result.error().message.starts_with("m/encoding.json: ")) << result.error().message;
    EXPECT_NE(result.error().message.find(flaw.key), std::string::npos) << result.error().message;
  }
  EXPECT_FALSE(parse_chat_format("", "x").ok());
  EXPECT_EQ(load_chat_format("/nowhere/encoding.json").error().code, ErrorCode::not_found);
}

} // namespace
} // namespace troupe::text
