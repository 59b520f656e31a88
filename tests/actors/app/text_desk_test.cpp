// Bodies to token ids and token ids to answer lines, without actors: stop strings, minimum lengths,
// defaults, limits, failures.

#include "actors/app/text_desk.hpp"
#include "actors/job_window.hpp"
#include "schedulers/core/hash.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace troupe::app {
namespace {

std::string path_of(const char* file) {
  return fmt::format("{}/examples/models/nano-v4.1/{}", TROUPE_SOURCE_DIR, file);
}
constexpr std::int32_t kEos = 1;

TextOptions options() {
  TextOptions out;
  out.tokenizer = *text::Tokenizer::load(path_of("tokenizer.json"));
  out.format = *text::load_chat_format(path_of("encoding.json"));
  out.job_id = "batch_0";
  out.vocab = 4096;
  out.context_max = 16384;
  return out;
}

actors::JobLine line(bool is_chat, const std::string& body) { return {3, "a", is_chat, body, {}}; }

std::string chat(const std::string& fields) {
  return fmt::format(
      R"({{"messages":[{{"role":"user","content":"Count."}}],"thinking":{{"type":"disabled"}}{}}})",
      fields);
}

/// Feeds an answer token by token, as a rank would, until a stop string is found.
nlohmann::json answer_of(TextDesk& desk, const std::string& text, sched::EndReason end) {
  const auto ids =
      *(*text::Tokenizer::load(path_of("tokenizer.json")))->encode(text, text::AddedTokens::match);
  const RequestId request = actors::request_of(3, 0);
  bool stopped = false;
  std::int64_t index = 0;
  for (const std::int32_t id : ids) {
    const sched::TokenRow row{{request, Attempt{1}}, index++, id, 0, {}, {}, {}};
    stopped = desk.detokenise(request, std::span(&row, 1)) || stopped;
  }
  if (end == sched::EndReason::eos && !stopped) {
    const sched::TokenRow row{{request, Attempt{1}}, index, kEos, 0, {}, {}, end};
    desk.detokenise(request, std::span(&row, 1));
  }
  const auto answer =
      desk.complete({request, ErrorCode::ok, stopped ? sched::EndReason::none : end, {}});
  if (!answer) return nullptr;
  return nlohmann::json::parse(answer->text)["response"]["body"];
}

TEST(TextDesk, AnswersAChatLine) {
  TextDesk desk(options(), {});
  const auto outcome =
      desk.render(line(true, chat(R"(,"max_tokens":50,"seed":9,"temperature":0)")));
  ASSERT_FALSE(outcome.answer);
  ASSERT_EQ(outcome.choices.size(), 1U);
  EXPECT_EQ(outcome.choices[0].work.new_tokens_max, 50);
  EXPECT_EQ(outcome.choices[0].work.sampling.seed, 9U);
  EXPECT_EQ(outcome.choices[0].work.sampling.temperature_bits, 0U);
  const auto body = answer_of(desk, "1, 2, 3", sched::EndReason::eos);
  EXPECT_EQ(body["choices"][0]["message"]["content"], "1, 2, 3");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(desk.lines(), 0);
}

TEST(TextDesk, NothingOfAStopStringAndNothingBehindIt) {
  TextDesk desk(options(), {});
  ASSERT_FALSE(desk.render(line(true, chat(R"(,"stop":", 4")"))).answer);
  const auto body = answer_of(desk, "1, 2, 3, 4, 5, 6", sched::EndReason::eos);
  EXPECT_EQ(body["choices"][0]["message"]["content"], "1, 2, 3");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
}

TEST(TextDesk, AMinimumOfTokensHoldsStopStringsBack) {
  TextDesk desk(options(), {});
  ASSERT_FALSE(desk.render(line(true, chat(R"(,"stop":", 4","min_tokens":1000)"))).answer);
  const auto body = answer_of(desk, "1, 2, 3, 4, 5, 6", sched::EndReason::eos);
  EXPECT_EQ(body["choices"][0]["message"]["content"], "1, 2, 3, 4, 5, 6");
}

TEST(TextDesk, ASessionIsTheNamedOneElseTheUsersElseTheLines) {
  TextDesk desk(options(), {});
  const auto session = [&](const std::string& fields) {
    return desk.render(line(true, chat(fields))).choices.at(0).session_hash;
  };
  EXPECT_EQ(session(R"(,"metadata":{"session_id":"s"},"user":"u")"), hash64("s"));
  EXPECT_EQ(session(R"(,"metadata":{"other":"s"},"user":"u")"), hash64("u"));
  EXPECT_EQ(session(""), hash64("a")) << "the line's custom_id";
}

TEST(TextDesk, AShareBelowEveryFloatIsTheSmallestOne) {
  TextDesk desk(options(), {});
  const auto outcome = desk.render(line(true, chat(R"(,"top_p":1e-50)")));
  ASSERT_EQ(outcome.choices.size(), 1U);
  EXPECT_EQ(outcome.choices[0].work.sampling.top_p_bits, 0x00800000U);
}

TEST(TextDesk, AMinimumOfTokensWithoutATokenToDrawIsRefused) {
  TextOptions small = options();
  small.vocab = 4;
  small.eos_ids = {kEos};
  TextDesk desk(small, {});
  const auto refused =
      desk.render(line(true, chat(R"(,"min_tokens":2,"max_tokens":5,"stop_token_ids":[0,2,3])")));
  ASSERT_TRUE(refused.answer);
  const auto error = nlohmann::json::parse(refused.answer->text)["response"];
  EXPECT_EQ(error["status_code"], 400);
  EXPECT_EQ(error["body"]["error"]["param"], "stop_token_ids");
}

TEST(TextDesk, DefaultsOfLengthDependOnTheKindOfRequest) {
  TextDesk desk(options(), {});
  const auto new_tokens = [&](bool is_chat, const std::string& body) {
    return desk.render(line(is_chat, body)).choices.at(0).work.new_tokens_max;
  };
  EXPECT_EQ(new_tokens(false, R"({"prompt":"1"})"), 16);
  EXPECT_EQ(new_tokens(true, chat("")), 8192);
  // Thinking: 65536, bounded by what the context leaves.
  const auto thinking =
      desk.render(line(true, R"({"messages":[{"role":"user","content":"Count."}]})"));
  const auto& work = thinking.choices.at(0).work;
  EXPECT_EQ(work.new_tokens_max + static_cast<std::int64_t>(work.prompt.size()), 16384);
}

TEST(TextDesk, APromptThatFillsTheContextIsRefusedWithItsNumbers) {
  TextOptions small = options();
  small.context_max = 4;
  TextDesk desk(small, {});
  const auto outcome = desk.render(line(false, R"({"prompt":[5,6,7,8]})"));
  ASSERT_TRUE(outcome.answer);
  EXPECT_TRUE(outcome.answer->is_error);
  const auto parsed = nlohmann::json::parse(outcome.answer->text);
  EXPECT_EQ(parsed["response"]["status_code"], 400);
  const std::string message = parsed["response"]["body"]["error"]["message"];
  EXPECT_NE(message.find("has 4 tokens"), std::string::npos) << message;
  EXPECT_NE(message.find("is 4 tokens"), std::string::npos) << message;
}

TEST(TextDesk, ALineEndsWhenAllItsChoicesEnded) {
  TextDesk desk(options(), {});
  const auto outcome = desk.render(line(false, R"({"prompt":["1","2"],"max_tokens":2})"));
  ASSERT_EQ(outcome.choices.size(), 2U);
  EXPECT_NE(outcome.choices[0].work.sampling.seed, outcome.choices[1].work.sampling.seed);
  const auto end = sched::EndReason::length;
  EXPECT_FALSE(desk.complete({actors::request_of(3, 1), ErrorCode::ok, end, {}}));
  EXPECT_FALSE(desk.complete({actors::request_of(3, 1), ErrorCode::ok, end, {}}));
  EXPECT_TRUE(desk.complete({actors::request_of(3, 0), ErrorCode::ok, end, {}}));
}

TEST(TextDesk, AFailedChoiceMakesTheLineAnError) {
  TextDesk desk(options(), {});
  ASSERT_FALSE(desk.render(line(false, R"({"prompt":"1"})")).answer);
  const auto answer = desk.complete(
      {actors::request_of(3, 0), ErrorCode::attempts_exhausted, {}, "lost three times"});
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->is_error);
  const auto parsed = nlohmann::json::parse(answer->text);
  EXPECT_EQ(parsed["response"]["status_code"], 500);
  EXPECT_EQ(parsed["response"]["body"]["error"]["code"], "attempts_exhausted");
}

TEST(TextDesk, TokensOfADroppedLineAreIgnored) {
  TextDesk desk(options(), {});
  ASSERT_FALSE(desk.render(line(false, R"({"prompt":"1"})")).answer);
  desk.drop(3);
  const sched::TokenRow row{{actors::request_of(3, 0), Attempt{1}}, 0, 40, 0, {}, {}, {}};
  EXPECT_FALSE(desk.detokenise(actors::request_of(3, 0), std::span(&row, 1)));
  EXPECT_FALSE(desk.complete({actors::request_of(3, 0), ErrorCode::ok, {}, {}}));
  EXPECT_EQ(desk.lines(), 0);
}

} // namespace
} // namespace troupe::app
