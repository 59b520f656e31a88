// Goal: every line that is no good request is refused with code, param and one clear message.
// Method: the table of lines through the reader of lines and, where the line is good, the reader of
// bodies; as many bytes changed at random as there are lines.

#include "actors/app/batch_line.hpp"
#include "actors/app/response_body.hpp"
#include "engine/text/chat_format.hpp"
#include "engine/text/request_body.hpp"
#include "schedulers/core/rng.hpp"
#include "tests/support/bad_requests.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>

namespace troupe::app {
namespace {

using Json = nlohmann::json;
using test::BadRequest;

constexpr std::size_t kMessageBytesMax = 600;

const text::BodyRules& rules() {
  static const auto format =
      text::load_chat_format(TROUPE_SOURCE_DIR "/examples/models/nano-v4.1/encoding.json");
  static const text::BodyRules made = [] {
    text::BodyRules out;
    out.format = &*format;
    out.vocab = 4096;
    return out;
  }();
  return made;
}

void expect_parts(const std::string& message, const BadRequest& bad) {
  for (const std::string& part : bad.parts)
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
  EXPECT_LE(message.size(), kMessageBytesMax) << message;
}

TEST(BadRequests, AreManyAndDistinct) {
  std::set<std::string> names;
  for (const BadRequest& bad : test::bad_requests())
    EXPECT_TRUE(names.insert(bad.name).second) << bad.name;
  EXPECT_GE(names.size(), 130U);
}

class EveryBadRequest : public testing::TestWithParam<BadRequest> {};

TEST_P(EveryBadRequest, IsRefusedWithItsPlace) {
  const BadRequest& bad = GetParam();
  const BatchLineOutcome line = parse_batch_line(bad.line);
  if (!bad.is_readable) {
    ASSERT_FALSE(line.ok());
    EXPECT_EQ(line.error->code, bad.code) << line.error->message;
    EXPECT_EQ(line.error->custom_id.value_or(""), bad.has_custom_id ? bad.name : "");
    expect_parts(line.error->message, bad);
    const Json written = Json::parse(unreadable_line("batch_1", 7, *line.error));
    EXPECT_EQ(written["line"], 7);
    EXPECT_TRUE(written["response"].is_null());
    return;
  }
  ASSERT_TRUE(line.ok()) << line.error->message;
  EXPECT_EQ(line.line.custom_id, bad.name);
  const auto body = text::parse_request_body(line.line.endpoint, line.line.body, rules());
  ASSERT_FALSE(body.ok());
  EXPECT_EQ(body.error->code, bad.code) << body.error->message;
  EXPECT_EQ(body.error->param, bad.param) << body.error->message;
  EXPECT_EQ(body.error->status, 400);
  expect_parts(body.error->message, bad);
  EXPECT_FALSE(Json::parse(error_body(*body.error), nullptr, false).is_discarded());
}

INSTANTIATE_TEST_SUITE_P(Lines, EveryBadRequest, testing::ValuesIn(test::bad_requests()),
                         [](const auto& tested) { return tested.param.name; });

TEST(BadRequests, ChangedBytesAreAnsweredToo) {
  constexpr std::uint64_t kSeed = 11;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  Rng rng(kSeed);
  for (const BadRequest& bad : test::bad_requests()) {
    std::string text = bad.line.substr(0, 2000);
    for (int i = 0; i < 3; ++i)
      text[rng.below(text.size())] = static_cast<char>(rng.below(256));
    const BatchLineOutcome line = parse_batch_line(text);
    if (!line.ok()) {
      EXPECT_FALSE(
          Json::parse(unreadable_line("j", 1, *line.error), nullptr, false).is_discarded());
      continue;
    }
    const auto body = text::parse_request_body(line.line.endpoint, line.line.body, rules());
    if (!body.ok()) {
      EXPECT_FALSE(Json::parse(error_body(*body.error), nullptr, false).is_discarded());
    }
  }
}

} // namespace
} // namespace troupe::app
