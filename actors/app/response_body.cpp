#include "actors/app/response_body.hpp"

#include "actors/app/batch_files.hpp"
#include "engine/text/utf8.hpp"
#include "schedulers/core/hex.hpp"

#include <nlohmann/json.hpp>

#include <bit>
#include <charconv>
#include <cmath>

namespace troupe::app {

namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The double whose shortest text is the shortest text of this float32.
Json logprob_number(std::uint32_t bits) {
  const float value = std::bit_cast<float>(bits);
  if (!std::isfinite(value)) {
    return -9999.0;
  }
  char text[32];
  const auto [end, failed] = std::to_chars(text, text + sizeof text, value);
  double out = 0.0;
  std::from_chars(text, end, out);
  return failed == std::errc{} && out != 0.0 ? out : 0.0;
}

bool is_utf8(const std::string& bytes) { return !text::invalid_utf8_at(bytes); }

Json chance_entry(const TokenChance& chance) {
  Json bytes = Json::array();
  for (const char c : chance.bytes) {
    bytes.push_back(static_cast<unsigned char>(c));
  }
  // The dump replaces what is not UTF-8, so `token` is always readable and `bytes` exact.
  return {{"token", chance.bytes},
          {"logprob", logprob_number(chance.logprob_bits)},
          {"bytes", std::move(bytes)}};
}

Json chat_logprobs(const AnswerChoice& choice) {
  Json content = Json::array();
  for (const TokenChances& row : choice.logprobs) {
    Json entry = chance_entry(row.drawn);
    Json top = Json::array();
    for (const TokenChance& chance : row.top) {
      top.push_back(chance_entry(chance));
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

/// Spelling of a token as a key: text, or "bytes:\xe2\x80" for a part of a character.
std::string token_key(const std::string& bytes) {
  if (is_utf8(bytes)) {
    return bytes;
  }
  std::string out = "bytes:";
  for (const char c : bytes)
    append_hex(static_cast<unsigned char>(c), 2, out.append("\\x"));
  return out;
}

std::int64_t characters_in(std::string_view bytes) {
  std::int64_t count = 0;
  for (const char c : bytes) {
    count += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0;
  }
  return count;
}

Json completion_logprobs(const AnswerChoice& choice) {
  Json tokens = Json::array();
  Json chances = Json::array();
  Json tops = Json::array();
  Json offsets = Json::array();
  std::int64_t offset = 0;
  for (const TokenChances& row : choice.logprobs) {
    tokens.push_back(token_key(row.drawn.bytes));
    chances.push_back(logprob_number(row.drawn.logprob_bits));
    Json top = Json::object();
    for (const TokenChance& chance : row.top) {
      top.emplace(token_key(chance.bytes), logprob_number(chance.logprob_bits));
    }
    if (!row.top.empty()) {
      top.emplace(token_key(row.drawn.bytes), logprob_number(row.drawn.logprob_bits));
    }
    tops.push_back(row.top.empty() ? Json(nullptr) : std::move(top));
    offsets.push_back(offset);
    offset += characters_in(row.drawn.bytes);
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(chances)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

std::string call_id(const std::string& response, std::size_t choice, std::size_t call) {
  const std::string key =
      "call " + response + " " + std::to_string(choice) + " " + std::to_string(call);
  return "call_" + hex(digest_of(key)).substr(0, 24);
}

Json chat_choice(const Answer& answer, std::size_t index) {
  const AnswerChoice& choice = answer.choices[index];
  Json message = {{"role", "assistant"}};
  if (choice.has_reasoning) {
    message["reasoning_content"] = choice.reasoning;
  }
  const bool has_only_calls = choice.content.empty() && !choice.tool_calls.empty();
  message["content"] = has_only_calls ? Json(nullptr) : Json(choice.content);
  if (!choice.tool_calls.empty()) {
    Json calls = Json::array();
    for (std::size_t i = 0; i < choice.tool_calls.size(); ++i) {
      const AnswerCall& call = choice.tool_calls[i];
      calls.push_back({{"id", call_id(answer.id, index, i)},
                       {"type", "function"},
                       {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    message["tool_calls"] = std::move(calls);
  }
  return {{"index", index},
          {"message", std::move(message)},
          {"logprobs", choice.has_logprobs ? chat_logprobs(choice) : Json(nullptr)},
          {"finish_reason", text::finish_reason_name(choice.finish)}};
}

Json completion_choice(const Answer& answer, std::size_t index) {
  const AnswerChoice& choice = answer.choices[index];
  return {{"index", index},
          {"text", choice.content},
          {"logprobs", choice.has_logprobs ? completion_logprobs(choice) : Json(nullptr)},
          {"finish_reason", text::finish_reason_name(choice.finish)}};
}

} // namespace

std::string response_body(const Answer& answer) {
  const bool is_chat = answer.endpoint == text::Endpoint::chat_completions;
  Json choices = Json::array();
  for (std::size_t i = 0; i < answer.choices.size(); ++i) {
    choices.push_back(is_chat ? chat_choice(answer, i) : completion_choice(answer, i));
  }
  Json usage = {{"prompt_tokens", answer.usage.prompt_tokens},
                {"completion_tokens", answer.usage.completion_tokens},
                {"total_tokens", answer.usage.prompt_tokens + answer.usage.completion_tokens}};
  if (answer.usage.reasoning_tokens) {
    usage["completion_tokens_details"] = {{"reasoning_tokens", *answer.usage.reasoning_tokens}};
  }
  // The model is inserted as the client wrote it, so that its bytes survive.
  std::string out = R"({"id":)" + json_string(answer.id) + R"(,"object":)";
  out += is_chat ? R"("chat.completion")" : R"("text_completion")";
  out += R"(,"created":)" + std::to_string(answer.created_s);
  out += R"(,"model":)" + answer.model_json;
  out += R"(,"choices":)" + dumped(choices) + R"(,"usage":)" + dumped(usage) + "}";
  return out;
}

std::string error_body(std::string_view message, std::string_view type, std::string_view param,
                       std::string_view code) {
  const auto or_null = [](std::string_view field) {
    return field.empty() ? Json(nullptr) : Json(field);
  };
  return dumped({{"error",
                  {{"message", message},
                   {"type", type},
                   {"param", or_null(param)},
                   {"code", or_null(code)}}}});
}

std::string error_body(const text::RequestError& error) {
  return error_body(error.message, "invalid_request_error", error.param, error.code);
}

std::string json_string(std::string_view text) { return dumped(Json(text)); }

} // namespace troupe::app
