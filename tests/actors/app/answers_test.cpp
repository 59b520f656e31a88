// Goal: bodies, summary and progress have the promised shapes, and equal input gives equal bytes.

#include "actors/app/progress.hpp"
#include "actors/app/response_body.hpp"
#include "actors/app/summary.hpp"
#include "tests/actors/app/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <bit>
#include <cmath>

namespace troupe::app {
namespace {

using Json = nlohmann::json;

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

Answer chat_answer() {
  Answer answer;
  answer.id = "chatcmpl-1";
  answer.created_s = 1700000000;
  answer.model_json = R"("any \u00e4 model")";
  AnswerChoice choice;
  choice.content = "Hi \"you\"\n";
  answer.choices.push_back(choice);
  answer.usage = {5, 3, std::nullopt};
  return answer;
}

TEST(ResponseBody, ChatHasTheExactBytes) {
  EXPECT_EQ(response_body(chat_answer()),
            R"({"id":"chatcmpl-1","object":"chat.completion","created":1700000000,)"
            R"("model":"any \u00e4 model","choices":[{"index":0,"message":{"role":"assistant",)"
            R"("content":"Hi \"you\"\n"},"logprobs":null,"finish_reason":"stop"}],)"
            R"("usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}})");
}

TEST(ResponseBody, ReasoningAndCalls) {
  Answer answer = chat_answer();
  answer.usage.reasoning_tokens = 2;
  AnswerChoice& choice = answer.choices[0];
  choice.has_reasoning = true;
  choice.content = "";
  choice.tool_calls = {{"f", R"({"a":1})"}, {"g", "{}"}};
  choice.finish = text::FinishReason::tool_calls;
  const Json body = Json::parse(response_body(answer));
  const Json& message = body["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "");
  EXPECT_TRUE(message["content"].is_null());
  EXPECT_EQ(message["tool_calls"].size(), 2U);
  EXPECT_EQ(message["tool_calls"][0]["type"], "function");
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], R"({"a":1})");
  EXPECT_NE(message["tool_calls"][0]["id"], message["tool_calls"][1]["id"]);
  EXPECT_EQ(body["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_EQ(body["usage"]["completion_tokens_details"]["reasoning_tokens"], 2);
  EXPECT_EQ(response_body(answer), response_body(answer));
}

AnswerChoice choice_with_logprobs() {
  AnswerChoice choice;
  choice.content = "é!";
  choice.has_logprobs = true;
  choice.logprobs = {{{"é", bits(-0.25F)}, {{"é", bits(-0.25F)}, {"e", bits(-2.1F)}}},
                     {{"\xC3", bits(-INFINITY)}, {}},
                     {{"!", bits(0.0F)}, {}}};
  return choice;
}

TEST(ResponseBody, ChatLogprobs) {
  Answer answer = chat_answer();
  answer.choices[0] = choice_with_logprobs();
  const Json logprobs = Json::parse(response_body(answer))["choices"][0]["logprobs"];
  const Json& rows = logprobs["content"];
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0]["token"], "é");
  EXPECT_EQ(rows[0]["bytes"], Json({195, 169}));
  EXPECT_EQ(rows[0]["logprob"], -0.25);
  ASSERT_EQ(rows[0]["top_logprobs"].size(), 2U);
  EXPECT_EQ(rows[0]["top_logprobs"][1]["token"], "e");
  // The shortest text of the float32 is written, not that of its double.
  EXPECT_EQ(rows[0]["top_logprobs"][1]["logprob"].dump(), "-2.1");
  EXPECT_EQ(rows[1]["token"], "\xEF\xBF\xBD");
  EXPECT_EQ(rows[1]["bytes"], Json({195}));
  EXPECT_EQ(rows[1]["logprob"], -9999.0);
  EXPECT_TRUE(rows[2]["top_logprobs"].empty());
}

TEST(ResponseBody, CompletionLogprobs) {
  Answer answer = chat_answer();
  answer.endpoint = text::Endpoint::completions;
  answer.choices = {choice_with_logprobs(), AnswerChoice{}};
  answer.choices[1].finish = text::FinishReason::length;
  const Json body = Json::parse(response_body(answer));
  EXPECT_EQ(body["object"], "text_completion");
  ASSERT_EQ(body["choices"].size(), 2U);
  EXPECT_EQ(body["choices"][0]["text"], "é!");
  const Json& logprobs = body["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json({"é", "bytes:\\xc3", "!"}));
  EXPECT_EQ(logprobs["token_logprobs"], Json({-0.25, -9999.0, 0.0}));
  EXPECT_EQ(logprobs["text_offset"], Json({0, 1, 2}));
  EXPECT_EQ(logprobs["top_logprobs"][0]["e"].dump(), "-2.1");
  EXPECT_TRUE(logprobs["top_logprobs"][1].is_null());
  EXPECT_EQ(body["choices"][1]["index"], 1);
  EXPECT_EQ(body["choices"][1]["finish_reason"], "length");
  EXPECT_TRUE(body["choices"][1]["logprobs"].is_null());
}

TEST(ResponseBody, Errors) {
  EXPECT_EQ(error_body("m", "invalid_request_error", "", ""),
            R"({"error":{"message":"m","type":"invalid_request_error","param":null,"code":null}})");
  text::RequestError error;
  error.message = "bad";
  error.param = "messages[0]";
  error.code = "invalid_type";
  const Json body = Json::parse(error_body(error));
  EXPECT_EQ(body["error"]["param"], "messages[0]");
  EXPECT_EQ(body["error"]["code"], "invalid_type");
  EXPECT_EQ(json_string("a\xFF\n"), "\"a\xEF\xBF\xBD\\n\"");
}

TEST(Histogram, QuantilesAreWithinABucket) {
  Histogram histogram;
  for (std::int64_t i = 1; i <= 1000; ++i) {
    histogram.record(i * 1000);
  }
  EXPECT_EQ(histogram.count(), 1000);
  EXPECT_EQ(histogram.mean_us(), 500'500);
  for (const std::int64_t permille : {10, 500, 950, 990, 1000}) {
    const auto exact = static_cast<double>(permille * 1000);
    const auto got = static_cast<double>(histogram.quantile_us(permille));
    EXPECT_GE(got, exact) << permille;
    EXPECT_LE(got, exact * (1.0 + 1.0 / 64)) << permille;
  }
  EXPECT_EQ(histogram.max_us(), 1'000'000);
  EXPECT_EQ(histogram.quantile_us(1000), 1'000'000) << "never above the largest value";
}

TEST(Histogram, SmallValuesAreExactAndLargeOnesFit) {
  Histogram histogram;
  EXPECT_EQ(histogram.quantile_us(500), 0);
  for (const std::int64_t value : {0, 1, 2, 63}) {
    histogram.record(value);
  }
  EXPECT_EQ(histogram.quantile_us(250), 0);
  EXPECT_EQ(histogram.quantile_us(500), 1);
  EXPECT_EQ(histogram.quantile_us(1000), 63);
  histogram.record(-5);
  histogram.record(INT64_MAX);
  EXPECT_EQ(histogram.quantile_us(1000), INT64_MAX);
  Histogram other;
  other.record(64);
  other.merge(histogram);
  EXPECT_EQ(other.count(), 7);
  EXPECT_EQ(other.max_us(), INT64_MAX);
}

RunSummary sample_summary() {
  RunSummary summary;
  summary.job_id = "batch_1";
  summary.requests_total = 10;
  summary.requests_succeeded = 8;
  summary.requests_failed = 2;
  summary.prompt_tokens = 100;
  summary.completion_tokens = 50;
  summary.run_requests = 10;
  summary.run_prompt_tokens = 100;
  summary.run_completion_tokens = 50;
  for (int i = 1; i <= 100; ++i) {
    summary.ttft.record(i * 1000);
  }
  summary.tpot.record(5000);
  summary.ranks = {{"prefill-0", sched::Role::prefill, 900'000, 9},
                   {"decode-0", sched::Role::decode, 100'000, 40}};
  summary.scheduling_us = 490;
  summary.ledger_us = 2'500;
  summary.steps = 49;
  summary.messages = 120;
  summary.wall_us = 1'000'000;
  return summary;
}

TEST(Summary, SaysWhatAPersonWantsToKnow) {
  const std::string text = summary_text(sample_summary());
  for (const char* part :
       {"10 of 10 requests", "8 succeeded", "2 failed", "100 in, 50 out", "TTFT", "p50 50", "TPOT",
        "prefill-0", "busy 90.0 %", "busy 10.0 %", "configs/throughput.toml", "scheduling",
        "10 us a step", "12.0 messages a request", "0.25 % of the wall time", "1.00 s"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  EXPECT_EQ(text.find("restarts"), std::string::npos);
  RunSummary busy = sample_summary();
  busy.rank_restarts = 2;
  EXPECT_NE(summary_text(busy).find("restarts   2 times"), std::string::npos);
  EXPECT_EQ(Json::parse(summary_json(busy))["run"]["rank_restarts"], 2);
  busy.ranks[1].busy_us = 300'000;
  EXPECT_EQ(summary_text(busy).find("throughput.toml"), std::string::npos);
}

TEST(Summary, AnEmptyRunIsNoDivisionByZero) {
  const std::string text = summary_text({});
  EXPECT_NE(text.find("no value"), std::string::npos);
  EXPECT_FALSE(Json::parse(summary_json({}), nullptr, false).is_discarded());
}

TEST(Summary, JsonHasJobAndRun) {
  const Json json = Json::parse(summary_json(sample_summary()));
  EXPECT_EQ(json["requests"]["failed"], 2);
  EXPECT_EQ(json["tokens"]["completion"], 50);
  EXPECT_EQ(json["run"]["ranks"][1]["busy_permille"], 100);
  EXPECT_EQ(json["run"]["ttft"]["count"], 100);
  EXPECT_GE(json["run"]["ttft"]["p95_us"], 95'000);
  EXPECT_EQ(json["end"], "finished");
  const TemporaryFolder folder;
  ASSERT_TRUE(write_summary(sample_summary(), folder.path("s.json")).ok());
  EXPECT_EQ(Json::parse(folder.read("s.json")), json);
  EXPECT_FALSE(folder.has("s.json.tmp"));
  EXPECT_EQ(write_summary(sample_summary(), folder.path("no/s.json")).error().code,
            ErrorCode::io_error);
}

// 240 lines are in the system, and 112 of them wait for a rank: they do not run.
TEST(Progress, WhoWaitsForARankDoesNotRun) {
  const RequestCounts stalled = request_counts(240, 0, 112);
  EXPECT_EQ(stalled.running, 128);
  EXPECT_EQ(stalled.waiting, 112);
  const RequestCounts held_back = request_counts(10, 5, 3);
  EXPECT_EQ(held_back.running, 7);
  EXPECT_EQ(held_back.waiting, 8);
  const RequestCounts behind = request_counts(2, 1, 4); // The two are said at different moments.
  EXPECT_EQ(behind.running, 0);
  EXPECT_EQ(behind.waiting, 3) << "the sum stays";
}

ProgressState at(std::int64_t done, std::int64_t tokens) {
  ProgressState state;
  state.succeeded = done;
  state.total = 100;
  state.requests.running = 4;
  state.requests.waiting = 6;
  state.run_done = done;
  state.prompt_tokens = tokens * 2;
  state.completion_tokens = tokens;
  return state;
}

TEST(Progress, OnALogALineEveryTenSeconds) {
  ProgressLine progress({false, false, 80});
  EXPECT_EQ(progress.update(at(0, 0), 1'000'000), "");
  EXPECT_EQ(progress.update(at(1, 10), 10'999'999), "");
  const std::string line = progress.update(at(20, 1000), 11'000'000);
  EXPECT_EQ(line, "20/100 done, 200 tok/s in, 100 out, 4 running, 6 waiting, ETA 0:40\n");
  EXPECT_EQ(progress.update(at(30, 1000), 12'000'000), "");
  EXPECT_EQ(progress.clear(), "");
}

TEST(Progress, OnATerminalOneLineThatFits) {
  ProgressLine progress({true, false, 40});
  const std::string first = progress.update(at(0, 0), 0);
  EXPECT_EQ(first.rfind("\r\x1b[K", 0), 0U);
  EXPECT_EQ(progress.update(at(0, 0), 100'000), "");
  const std::string second = progress.update(at(50, 100), 3'000'000);
  EXPECT_LE(second.size(), 4U + 39U);
  EXPECT_NE(second.find("[##########----------]"), std::string::npos) << second;
  EXPECT_EQ(progress.clear(), "\r\x1b[K");
  EXPECT_EQ(progress.clear(), "");
}

TEST(Progress, QuietIsQuiet) {
  ProgressLine progress({true, true, 80});
  EXPECT_EQ(progress.update(at(1, 1), 0), "");
  EXPECT_EQ(progress.update(at(1, 1), 60'000'000), "");
}

} // namespace
} // namespace troupe::app
