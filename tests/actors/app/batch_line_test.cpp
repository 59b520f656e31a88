// Goal: every malformed line has one clear error, and what is written has OpenAI's form.
// Method: a table of lines with the code and a part of the message; hostile text of many kinds.

#include "actors/app/batch_line.hpp"
#include "schedulers/core/rng.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace troupe::app {
namespace {

using Json = nlohmann::json;

const std::string kGood =
    R"({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"x": 1}})";

TEST(BatchLine, TakesAGoodLine) {
  const auto outcome = parse_batch_line(kGood);
  ASSERT_TRUE(outcome.ok()) << outcome.error->message;
  EXPECT_EQ(outcome.line.custom_id, "a");
  EXPECT_EQ(outcome.line.endpoint, text::Endpoint::chat_completions);
  EXPECT_EQ(outcome.line.body, R"({"x": 1})");
}

TEST(BatchLine, KeepsTheBodyByteForByte) {
  // Spaces, escapes, a key twice, numbers that no double holds: whoever reads the body judges it.
  const std::string good = R"({ "a" : [1.50], "b" : {"c": "}{\"\u00e4 ä"} , "a": -0.0, )"
                           R"("n": 123456789012345678901234567890 })";
  const auto outcome = parse_batch_line(
      R"({"body":)" + good + R"(,"url":"/v1/completions","custom_id":"é","method":"POST"})");
  ASSERT_TRUE(outcome.ok()) << outcome.error->message;
  EXPECT_EQ(outcome.line.body, good);
  EXPECT_EQ(outcome.line.custom_id, "é");
  EXPECT_EQ(outcome.line.endpoint, text::Endpoint::completions);
}

struct BadLine {
  std::string name;
  std::string text;
  std::string code;
  std::string part;      ///< Of the message.
  std::string custom_id; ///< "" = null.
};

class BadLines : public testing::TestWithParam<BadLine> {};

TEST_P(BadLines, SayWhatIsWrong) {
  const auto outcome = parse_batch_line(GetParam().text);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->code, GetParam().code);
  EXPECT_NE(outcome.error->message.find(GetParam().part), std::string::npos)
      << outcome.error->message;
  EXPECT_EQ(outcome.error->custom_id.value_or(""), GetParam().custom_id);
  EXPECT_EQ(outcome.line.custom_id, GetParam().custom_id);
}

std::string without(const std::string& part) {
  std::string text = kGood;
  return text.erase(text.find(part), part.size());
}
std::string with(const std::string& from, const std::string& to) {
  std::string text = kGood;
  return text.replace(text.find(from), from.size(), to);
}

INSTANTIATE_TEST_SUITE_P(
    Lines, BadLines,
    testing::Values(
        BadLine{"text", "hello", "invalid_json", "byte 1", ""},
        BadLine{"cut", R"({"custom_id": "a")", "invalid_json", "ends too early", "a"},
        BadLine{"two_objects", kGood + kGood, "invalid_json", "is not JSON", "a"},
        BadLine{"trailing_comma", with("}}", "},}"), "invalid_json", "is not JSON", "a"},
        BadLine{"single_quotes", "{'custom_id': 'a'}", "invalid_json", "is not JSON", ""},
        BadLine{"array", "[1]", "invalid_json", "an array", ""},
        BadLine{"string", "\"a\"", "invalid_json", "a string", ""},
        BadLine{"number", "5", "invalid_json", "a number", ""},
        BadLine{"null", "null", "invalid_json", "null", ""},
        BadLine{"not_a_number", with("1}", "NaN}"), "invalid_json", "is not JSON", "a"},
        BadLine{"number_too_large", with("1}", "1e999}"), "invalid_json", "too large", "a"},
        BadLine{"broken_utf8", with("\"x\"", "\"\xFF\""), "invalid_utf8", "UTF-8", "a"},
        BadLine{"utf16", std::string("{\0\"\0a\0", 6), "invalid_json", "zero byte", ""},
        BadLine{"zero_after_the_end", kGood + std::string("\0x", 2), "invalid_json", "zero byte",
                ""},
        BadLine{"empty_object", "{}", "missing_field", "custom_id is missing", ""},
        BadLine{"no_custom_id", without(R"("custom_id": "a", )"), "missing_field",
                "custom_id is missing", ""},
        BadLine{"custom_id_number", with("\"a\"", "7"), "invalid_custom_id", "is a number", ""},
        BadLine{"custom_id_null", with("\"a\"", "null"), "invalid_custom_id", "is null", ""},
        BadLine{"custom_id_object", with("\"a\"", "{\"b\":\"c\"}"), "invalid_custom_id",
                "is an object", ""},
        BadLine{"custom_id_empty", with("\"a\"", "\"\""), "invalid_custom_id", "is empty", ""},
        BadLine{"custom_id_long", with("\"a\"", '"' + std::string(10'000, 'i') + '"'),
                "invalid_custom_id", "10000 bytes", ""},
        BadLine{"custom_id_twice", with("{\"custom", R"({"custom_id":"b","custom)"),
                "duplicate_field", "custom_id stands twice", ""},
        BadLine{"no_method", without(R"("method": "POST", )"), "missing_field", "method is missing",
                "a"},
        BadLine{"method_get", with("POST", "GET"), "invalid_field", "method is \"GET\"", "a"},
        BadLine{"method_small", with("POST", "post"), "invalid_field", "expected \"POST\"", "a"},
        BadLine{"method_list", with("\"POST\"", "[]"), "invalid_field", "method is an array", "a"},
        BadLine{"no_url", without(R"("url": "/v1/chat/completions", )"), "missing_field",
                "url is missing", "a"},
        BadLine{"url_embeddings", with("chat/completions", "embeddings"), "invalid_field",
                "/v1/completions", "a"},
        BadLine{"url_with_host", with("/v1", "https://x/v1"), "invalid_field", "https", "a"},
        BadLine{"no_body", without(R"(, "body": {"x": 1})"), "missing_field", "body is missing",
                "a"},
        BadLine{"body_text", with("{\"x\": 1}", "\"x\""), "invalid_field", "body is a string", "a"},
        BadLine{"body_null", with("{\"x\": 1}", "null"), "invalid_field", "body is null", "a"},
        BadLine{"body_array", with("{\"x\": 1}", "[{}]"), "invalid_field", "body is an array", "a"},
        BadLine{"body_twice", with("}}", "},\"body\":{}}"), "duplicate_field", "body stands twice",
                "a"},
        BadLine{"misspelt", with("\"method\"", "\"metod\""), "unknown_field",
                "did you mean \"method\"", "a"},
        BadLine{"more", with("}}", "},\"tenant\":1}"), "unknown_field", "\"tenant\" is unknown",
                "a"}),
    [](const auto& tested) { return tested.param.name; });

TEST(BatchLine, DeepNestingIsNoCrash) {
  const std::string deep = with("1}", std::string(200'000, '[') + std::string(200'000, ']') + "}");
  EXPECT_TRUE(parse_batch_line(deep).ok());
  EXPECT_FALSE(parse_batch_line(with("1}", std::string(200'000, '['))).ok());
}

TEST(BatchLine, AnyCutOrChangedByteIsAnswered) {
  constexpr std::uint64_t kSeed = 7;
  Rng rng(kSeed);
  for (std::size_t i = 0; i < kGood.size(); ++i) {
    EXPECT_FALSE(parse_batch_line(kGood.substr(0, i)).ok()) << i;
    std::string changed = kGood;
    changed[i] = static_cast<char>(rng.below(256));
    const auto outcome = parse_batch_line(changed);
    if (!outcome.ok()) {
      EXPECT_FALSE(outcome.error->message.empty());
      // Whatever stands in the message can be written as JSON.
      EXPECT_FALSE(
          Json::parse(unreadable_line("j", 1, *outcome.error), nullptr, false).is_discarded());
    }
  }
}

TEST(BatchOutput, ASuccessHasOpenAisForm) {
  const Json line = Json::parse(response_line("batch_1", "a\"b", 200, R"({"x": 1})"));
  EXPECT_EQ(line["id"].get<std::string>().rfind("batch_req_", 0), 0U);
  EXPECT_EQ(line["custom_id"], "a\"b");
  EXPECT_EQ(line["response"]["status_code"], 200);
  EXPECT_EQ(line["response"]["request_id"].get<std::string>().rfind("req_", 0), 0U);
  EXPECT_EQ(line["response"]["body"]["x"], 1);
  EXPECT_TRUE(line["error"].is_null());
  EXPECT_EQ(line.size(), 4U);
}

TEST(BatchOutput, AnUnreadableLineNamesItsNumber) {
  const Json with_id = Json::parse(unreadable_line("j", 12, {"a", "duplicate_custom_id", "why"}));
  EXPECT_EQ(with_id["custom_id"], "a");
  EXPECT_EQ(with_id["line"], 12);
  EXPECT_TRUE(with_id["response"].is_null());
  EXPECT_EQ(with_id["error"]["code"], "duplicate_custom_id");
  EXPECT_EQ(with_id["error"]["message"], "why");
  const Json without_id = Json::parse(unreadable_line("j", 3, {{}, "invalid_json", "w"}));
  EXPECT_TRUE(without_id["custom_id"].is_null());
}

TEST(BatchOutput, IdsFollowFromJobAndLine) {
  EXPECT_EQ(line_ids("j", "a").id, line_ids("j", "a").id);
  EXPECT_NE(line_ids("j", "a").id, line_ids("k", "a").id);
  EXPECT_NE(line_ids("j", "a").id, line_ids("j", "b").id);
  EXPECT_NE(line_ids("j", "1").id, line_ids("j", 1).id) << "a custom_id is no line number";
  EXPECT_NE(line_ids("j", "a").id.substr(10), line_ids("j", "a").request_id.substr(4));
  EXPECT_EQ(response_id("j", "a", text::Endpoint::completions).rfind("cmpl-", 0), 0U);
  EXPECT_EQ(response_id("j", "a", text::Endpoint::chat_completions).rfind("chatcmpl-", 0), 0U);
}

TEST(BatchOutput, ADuplicateNamesBothLines) {
  const LineError error = duplicate_custom_id_error("x", 9, 2);
  EXPECT_EQ(error.code, "duplicate_custom_id");
  EXPECT_NE(error.message.find("line 9"), std::string::npos);
  EXPECT_NE(error.message.find("line 2"), std::string::npos);
  EXPECT_NE(line_too_long_error(20, 16).message.find("limits.line_bytes_max"), std::string::npos);
}

} // namespace
} // namespace troupe::app
