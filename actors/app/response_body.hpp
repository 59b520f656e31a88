// Answers as JSON text: bodies of chat.completion, text_completion and errors.
//
// Equal structs give equal bytes: fixed key order, shortest numbers, ids derived from the response.

#pragma once

#include "engine/text/request_body.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::app {

/// A token with its log-probability.
struct TokenChance {
  std::string bytes;              ///< As the detokeniser has them; need not be UTF-8.
  std::uint32_t logprob_bits = 0; ///< float32 bits; minus infinity is written as -9999.
};

/// A drawn token and the best alternatives at its place, best first.
struct TokenChances {
  TokenChance drawn;
  std::vector<TokenChance> top;
};

struct AnswerCall {
  std::string name;
  std::string arguments; ///< JSON text.
};

/// One choice. Texts are UTF-8.
struct AnswerChoice {
  std::string content;        ///< /v1/completions: the text.
  bool has_reasoning = false; ///< Write reasoning_content, even when it is empty.
  std::string reasoning;
  std::vector<AnswerCall> tool_calls;
  text::FinishReason finish = text::FinishReason::stop;
  bool has_logprobs = false;
  std::vector<TokenChances> logprobs; ///< One a token of the answer.
};

struct AnswerUsage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::optional<std::int64_t> reasoning_tokens; ///< Where known.
};

struct Answer {
  text::Endpoint endpoint = text::Endpoint::chat_completions;
  std::string id;                  ///< response_id().
  std::int64_t created_s = 0;      ///< Start of the job.
  std::string model_json = "null"; ///< JSON text, as the client sent it.
  std::vector<AnswerChoice> choices;
  AnswerUsage usage;
};

/// Body of chat.completion or text_completion. Pure. @pre texts are UTF-8, model_json is JSON
std::string response_body(const Answer& answer);

/// {"error":{"message","type","param","code"}}; an empty param or code is null. Pure.
std::string error_body(std::string_view message, std::string_view type, std::string_view param,
                       std::string_view code);

/// Body of a refused request. Pure.
std::string error_body(const text::RequestError& error);

/// `text` as a JSON string with its quotes; broken UTF-8 becomes U+FFFD. Pure.
std::string json_string(std::string_view text);

} // namespace troupe::app
