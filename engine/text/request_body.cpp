#include "engine/text/request_body.hpp"

#include "engine/text/chat_fields.hpp"
#include "engine/text/json_value.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace troupe::text {
namespace {

constexpr std::int64_t kMaxTokensMax = 393216;
constexpr std::int64_t kTopLogprobsMax = 20;
constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();

/// Reads one body: first every field by itself, then what holds between fields.
class BodyReader {
public:
  BodyReader(Endpoint endpoint, const BodyRules& rules) : rules_(rules) {
    body_.endpoint = endpoint;
  }

  Refusal read(const JsonValue& root);
  RequestBody take() { return std::move(body_); }

private:
  /// Where a field may stand.
  enum class Where : std::uint8_t { both, chat, completions };
  struct Field {
    std::string_view name;
    Where where;
    Refusal (BodyReader::*read)(const std::string& path, const JsonValue& value);
  };
  static const std::array<Field, 36> kFields;

  bool running() const { return rules_.strictness == Strictness::run; }
  bool is_chat() const { return body_.endpoint == Endpoint::chat_completions; }
  Refusal read_field(const JsonMember& member);
  Refusal check_between();

  Refusal model(const std::string&, const JsonValue& value);
  Refusal messages(const std::string&, const JsonValue& value);
  Refusal prompt(const std::string& path, const JsonValue& value);
  Refusal one_prompt(const std::string& path, const JsonValue& value);
  Refusal token_ids(const std::string& path, const JsonValue& value,
                    std::vector<std::int32_t>& out);
  Refusal max_tokens(const std::string& path, const JsonValue& value);
  Refusal min_tokens(const std::string& path, const JsonValue& value);
  Refusal temperature(const std::string& path, const JsonValue& value);
  Refusal top_p(const std::string& path, const JsonValue& value);
  Refusal top_k(const std::string& path, const JsonValue& value);
  Refusal seed(const std::string& path, const JsonValue& value);
  Refusal stop(const std::string& path, const JsonValue& value);
  Refusal stop_string(const std::string& path, const JsonValue& value);
  Refusal stop_token_ids(const std::string& path, const JsonValue& value);
  Refusal ignore_eos(const std::string& path, const JsonValue& value);
  Refusal logprobs(const std::string& path, const JsonValue& value);
  Refusal top_logprobs(const std::string& path, const JsonValue& value);
  Refusal thinking(const std::string&, const JsonValue& value);
  Refusal effort(const std::string&, const JsonValue& value);
  Refusal kwargs(const std::string&, const JsonValue& value);
  Refusal tools(const std::string&, const JsonValue& value);
  Refusal tool_choice(const std::string&, const JsonValue& value);
  Refusal response_format(const std::string&, const JsonValue& value);
  Refusal flag(const std::string& path, const JsonValue& value);
  Refusal user(const std::string& path, const JsonValue& value);
  Refusal metadata(const std::string& path, const JsonValue& value);
  Refusal priority(const std::string& path, const JsonValue& value);
  Refusal only_one(const std::string& path, const JsonValue& value);
  Refusal best_of(const std::string& path, const JsonValue& value);
  Refusal stream(const std::string& path, const JsonValue& value);
  Refusal stream_options(const std::string& path, const JsonValue& value);
  Refusal penalty(const std::string& path, const JsonValue& value);
  Refusal logit_bias(const std::string& path, const JsonValue& value);
  Refusal only_false(const std::string& path, const JsonValue& value);
  Refusal service_tier(const std::string& path, const JsonValue& value);
  Refusal suffix(const std::string& path, const JsonValue& value);

  const BodyRules& rules_;
  RequestBody body_;
  ThinkingFields thinking_;
  std::optional<bool> logprobs_flag_;
  std::optional<std::int64_t> top_logprobs_;
  bool has_messages_ = false;
  bool has_stream_options_ = false;
};

const std::array<BodyReader::Field, 36> BodyReader::kFields = {{
    {"model", Where::both, &BodyReader::model},
    {"messages", Where::chat, &BodyReader::messages},
    {"prompt", Where::completions, &BodyReader::prompt},
    {"max_tokens", Where::both, &BodyReader::max_tokens},
    {"max_completion_tokens", Where::both, &BodyReader::max_tokens},
    {"min_tokens", Where::both, &BodyReader::min_tokens},
    {"temperature", Where::both, &BodyReader::temperature},
    {"top_p", Where::both, &BodyReader::top_p},
    {"top_k", Where::both, &BodyReader::top_k},
    {"seed", Where::both, &BodyReader::seed},
    {"stop", Where::both, &BodyReader::stop},
    {"stop_token_ids", Where::both, &BodyReader::stop_token_ids},
    {"ignore_eos", Where::both, &BodyReader::ignore_eos},
    {"logprobs", Where::both, &BodyReader::logprobs},
    {"top_logprobs", Where::chat, &BodyReader::top_logprobs},
    {"thinking", Where::chat, &BodyReader::thinking},
    {"reasoning_effort", Where::chat, &BodyReader::effort},
    {"chat_template_kwargs", Where::chat, &BodyReader::kwargs},
    {"tools", Where::chat, &BodyReader::tools},
    {"tool_choice", Where::chat, &BodyReader::tool_choice},
    {"parallel_tool_calls", Where::chat, &BodyReader::flag},
    {"response_format", Where::both, &BodyReader::response_format},
    {"user", Where::both, &BodyReader::user},
    {"metadata", Where::both, &BodyReader::metadata},
    {"priority", Where::both, &BodyReader::priority},
    {"n", Where::both, &BodyReader::only_one},
    {"best_of", Where::both, &BodyReader::best_of},
    {"stream", Where::both, &BodyReader::stream},
    {"stream_options", Where::both, &BodyReader::stream_options},
    {"presence_penalty", Where::both, &BodyReader::penalty},
    {"frequency_penalty", Where::both, &BodyReader::penalty},
    {"logit_bias", Where::both, &BodyReader::logit_bias},
    {"echo", Where::both, &BodyReader::only_false},
    {"store", Where::both, &BodyReader::only_false},
    {"service_tier", Where::both, &BodyReader::service_tier},
    {"suffix", Where::both, &BodyReader::suffix},
}};

Refusal BodyReader::read(const JsonValue& root) {
  if (root.object() == nullptr) return wrong_type("", root, "a JSON object");
  if (is_chat() && rules_.format == nullptr) {
    return RequestError{400,
                        "this model has no chat format: its folder lacks encoding.json, so only "
                        "/v1/completions is served",
                        "messages", "unsupported_parameter"};
  }
  for (const JsonMember& member : *root.object()) {
    if (member.value.is_null()) continue;
    if (Refusal no = read_field(member)) return no;
  }
  return check_between();
}

Refusal BodyReader::read_field(const JsonMember& member) {
  for (const Field& field : kFields) {
    if (field.name != member.key) continue;
    const bool elsewhere = field.where == (is_chat() ? Where::completions : Where::chat);
    if (elsewhere) {
      return unsupported_field(member.key, is_chat() ? "belongs to /v1/completions"
                                                     : "belongs to /v1/chat/completions");
    }
    return (this->*field.read)(member.key, member.value);
  }
  std::array<std::string_view, kFields.size()> names;
  std::transform(kFields.begin(), kFields.end(), names.begin(),
                 [](const Field& field) { return field.name; });
  return unknown_field("", member.key, names);
}

Refusal BodyReader::check_between() {
  if (is_chat() && !has_messages_) return missing_field("messages", "an array of messages");
  if (!is_chat() && body_.prompts.empty()) {
    return missing_field("prompt", "a string, an array of strings, ids, or arrays of ids");
  }
  if (body_.max_tokens && body_.min_tokens > *body_.max_tokens) {
    return wrong_value("min_tokens", "is " + std::to_string(body_.min_tokens) + ", more than the " +
                                         std::to_string(*body_.max_tokens) + " of max_tokens");
  }
  if (has_stream_options_ && !body_.stream) {
    return wrong_value("stream_options", "needs `stream`: true");
  }
  if (!is_chat()) return std::nullopt;
  if (top_logprobs_ && !logprobs_flag_.value_or(false)) {
    return wrong_value("top_logprobs", "needs `logprobs`: true");
  }
  if (logprobs_flag_.value_or(false)) {
    body_.top_logprobs = static_cast<std::int32_t>(top_logprobs_.value_or(0));
  }
  if (Refusal no = resolve_thinking(thinking_, rules_, body_.chat)) return no;
  return check_chat(rules_, body_.chat);
}

// -- what to answer

Refusal BodyReader::model(const std::string&, const JsonValue& value) {
  body_.model_json = python_json(value);
  return std::nullopt;
}

Refusal BodyReader::messages(const std::string&, const JsonValue& value) {
  has_messages_ = true;
  return read_messages(value, rules_.strictness, body_.chat.messages);
}

Refusal BodyReader::prompt(const std::string& path, const JsonValue& value) {
  const JsonValue::Array* items = value.array();
  const bool many = items != nullptr && !items->empty() && !items->front().is_number();
  if (!many) return one_prompt(path, value);
  if (static_cast<std::int64_t>(items->size()) > rules_.choices_max) {
    return wrong_value(path, "has " + std::to_string(items->size()) + " prompts, at most " +
                                 std::to_string(rules_.choices_max) + " are allowed");
  }
  const bool texts = items->front().string() != nullptr;
  for (std::size_t i = 0; i < items->size(); ++i) {
    const JsonValue& item = (*items)[i];
    if (texts ? item.string() == nullptr : item.array() == nullptr) {
      return wrong_type(path_of(path, i), item,
                        texts ? "a string, as the first prompt is one"
                              : "a string or an array of ids, as the first prompt");
    }
    if (Refusal no = one_prompt(path_of(path, i), item)) return no;
  }
  return std::nullopt;
}

Refusal BodyReader::one_prompt(const std::string& path, const JsonValue& value) {
  CompletionPrompt prompt;
  if (const std::string* text = value.string()) {
    if (text->empty()) return wrong_value(path, "is empty, expected at least one character");
    prompt.text = *text;
  } else {
    if (value.array() == nullptr) {
      return wrong_type(path, value, "a string, an array of strings, ids, or arrays of ids");
    }
    if (value.array()->empty()) return wrong_value(path, "is empty, expected at least one id");
    prompt.is_ids = true;
    if (Refusal no = token_ids(path, value, prompt.ids)) return no;
  }
  body_.prompts.push_back(std::move(prompt));
  return std::nullopt;
}

Refusal BodyReader::token_ids(const std::string& path, const JsonValue& value,
                              std::vector<std::int32_t>& out) {
  if (value.array() == nullptr) return wrong_type(path, value, "an array of token ids");
  const std::int64_t high =
      (rules_.vocab > 0 ? rules_.vocab : std::numeric_limits<std::int32_t>::max()) - 1;
  for (std::size_t i = 0; i < value.array()->size(); ++i) {
    std::int64_t id = 0;
    if (Refusal no = read_integer(path_of(path, i), (*value.array())[i], 0, high, id)) return no;
    out.push_back(static_cast<std::int32_t>(id));
  }
  return std::nullopt;
}

Refusal BodyReader::tools(const std::string&, const JsonValue& value) {
  return read_tools(value, rules_.strictness, body_.chat.tools);
}

Refusal BodyReader::tool_choice(const std::string&, const JsonValue& value) {
  return read_tool_choice(value, rules_.strictness, body_.chat);
}

Refusal BodyReader::response_format(const std::string&, const JsonValue& value) {
  const Strictness strictness = is_chat() ? rules_.strictness : Strictness::run;
  return read_response_format(value, strictness, body_.chat.response_format);
}

Refusal BodyReader::thinking(const std::string&, const JsonValue& value) {
  return read_thinking(value, rules_.strictness, thinking_);
}

Refusal BodyReader::effort(const std::string&, const JsonValue& value) {
  return read_effort(value, *rules_.format, thinking_);
}

Refusal BodyReader::kwargs(const std::string&, const JsonValue& value) {
  return read_template_kwargs(value, thinking_);
}

// -- how to draw and when to end

Refusal BodyReader::max_tokens(const std::string& path, const JsonValue& value) {
  std::int64_t count = 0;
  if (Refusal no = read_integer(path, value, 1, kMaxTokensMax, count)) return no;
  if (body_.max_tokens.value_or(count) != count) {
    return wrong_value(path, "differs from the other of max_tokens and max_completion_tokens");
  }
  body_.max_tokens = count;
  return std::nullopt;
}

Refusal BodyReader::min_tokens(const std::string& path, const JsonValue& value) {
  return read_integer(path, value, 0, kMaxTokensMax, body_.min_tokens);
}

Refusal BodyReader::temperature(const std::string& path, const JsonValue& value) {
  return read_number(path, value, 0.0, 2.0, body_.temperature.emplace());
}

Refusal BodyReader::top_p(const std::string& path, const JsonValue& value) {
  double& top_p = body_.top_p.emplace();
  if (Refusal no = read_number(path, value, 0.0, 1.0, top_p)) return no;
  if (top_p > 0.0) return std::nullopt;
  return wrong_value(path, "is 0, expected a number above 0 and at most 1");
}

Refusal BodyReader::top_k(const std::string& path, const JsonValue& value) {
  std::int64_t& top_k = body_.top_k.emplace();
  if (Refusal no = read_integer(path, value, -1, std::numeric_limits<std::int32_t>::max(), top_k)) {
    return no;
  }
  top_k = std::max<std::int64_t>(top_k, 0);
  return std::nullopt;
}

Refusal BodyReader::seed(const std::string& path, const JsonValue& value) {
  std::int64_t seed = 0;
  if (Refusal no = read_integer(path, value, 0, kInt64Max, seed)) return no;
  body_.seed = static_cast<std::uint64_t>(seed);
  return std::nullopt;
}

Refusal BodyReader::stop(const std::string& path, const JsonValue& value) {
  if (value.string() != nullptr) return stop_string(path, value);
  if (value.array() == nullptr) return wrong_type(path, value, "a string or an array of strings");
  if (value.array()->size() > kStopStringsMax) {
    return wrong_value(path, "has " + std::to_string(value.array()->size()) + " strings, at most " +
                                 std::to_string(kStopStringsMax) + " are allowed");
  }
  for (std::size_t i = 0; i < value.array()->size(); ++i) {
    if (Refusal no = stop_string(path_of(path, i), (*value.array())[i])) return no;
  }
  return std::nullopt;
}

Refusal BodyReader::stop_string(const std::string& path, const JsonValue& value) {
  std::string text;
  if (Refusal no = read_string(path, value, text)) return no;
  if (text.empty()) return wrong_value(path, "is empty, expected at least one character");
  body_.stop.push_back(std::move(text));
  return std::nullopt;
}

Refusal BodyReader::stop_token_ids(const std::string& path, const JsonValue& value) {
  return token_ids(path, value, body_.stop_token_ids);
}

Refusal BodyReader::ignore_eos(const std::string& path, const JsonValue& value) {
  return read_bool(path, value, body_.ignore_eos);
}

Refusal BodyReader::logprobs(const std::string& path, const JsonValue& value) {
  if (is_chat()) return read_bool(path, value, logprobs_flag_.emplace());
  std::int64_t count = 0;
  if (Refusal no = read_integer(path, value, 0, kTopLogprobsMax, count)) return no;
  body_.top_logprobs = static_cast<std::int32_t>(count);
  return std::nullopt;
}

Refusal BodyReader::top_logprobs(const std::string& path, const JsonValue& value) {
  return read_integer(path, value, 0, kTopLogprobsMax, top_logprobs_.emplace());
}

// -- who asks

Refusal BodyReader::user(const std::string& path, const JsonValue& value) {
  return read_string(path, value, body_.user);
}

Refusal BodyReader::metadata(const std::string& path, const JsonValue& value) {
  if (value.object() == nullptr) return wrong_type(path, value, "an object");
  const JsonValue* session = value.find("session_id");
  if (session == nullptr || session->is_null()) return std::nullopt;
  return read_string(path_of(path, "session_id"), *session, body_.session_id);
}

Refusal BodyReader::priority(const std::string& path, const JsonValue& value) {
  return read_integer(path, value, -kInt64Max, kInt64Max, body_.priority.emplace());
}

// -- fields of which only one value does nothing

Refusal BodyReader::flag(const std::string& path, const JsonValue& value) {
  bool ignored = false;
  return read_bool(path, value, ignored);
}

Refusal BodyReader::only_one(const std::string& path, const JsonValue& value) {
  std::int64_t count = 0;
  if (Refusal no = read_integer(path, value, 0, kInt64Max, count)) return no;
  if (count == 1) return std::nullopt;
  return unsupported_value(path, "is " + std::to_string(count) + ", only 1 is supported");
}

Refusal BodyReader::best_of(const std::string& path, const JsonValue& value) {
  return running() ? only_one(path, value) : std::nullopt;
}

Refusal BodyReader::stream(const std::string& path, const JsonValue& value) {
  if (Refusal no = read_bool(path, value, body_.stream)) return no;
  if (!body_.stream || !running()) return std::nullopt;
  return unsupported_value(path, "is true, only false is supported");
}

Refusal BodyReader::stream_options(const std::string& path, const JsonValue& value) {
  if (running()) return unsupported_field(path, "is not supported, as nothing is streamed");
  if (value.object() == nullptr) return wrong_type(path, value, "an object");
  has_stream_options_ = true;
  return std::nullopt;
}

Refusal BodyReader::penalty(const std::string& path, const JsonValue& value) {
  double penalty = 0;
  if (Refusal no = read_number(path, value, -2.0, 2.0, penalty)) return no;
  if (penalty == 0.0 || !running()) return std::nullopt;
  return unsupported_value(path, found_and_expected(value, "0: penalties are not supported"));
}

Refusal BodyReader::logit_bias(const std::string& path, const JsonValue& value) {
  if (!running()) return std::nullopt;
  if (value.object() == nullptr) return wrong_type(path, value, "an object");
  if (value.object()->empty()) return std::nullopt;
  return unsupported_value(path, found_and_expected(value, "{}: biases are not supported"));
}

Refusal BodyReader::only_false(const std::string& path, const JsonValue& value) {
  if (!running()) return std::nullopt;
  bool on = false;
  if (Refusal no = read_bool(path, value, on)) return no;
  if (!on) return std::nullopt;
  return unsupported_value(path, "is true, only false is supported");
}

Refusal BodyReader::service_tier(const std::string& path, const JsonValue& value) {
  if (!running()) return std::nullopt;
  if (value.string() != nullptr && *value.string() == "auto") return std::nullopt;
  return unsupported_value(path, found_and_expected(value, "\"auto\""));
}

Refusal BodyReader::suffix(const std::string& path, const JsonValue&) {
  if (!running()) return std::nullopt;
  return unsupported_field(path, "is not supported: only text after the prompt is written");
}

} // namespace

BodyOutcome parse_request_body(Endpoint endpoint, std::string_view json, const BodyRules& rules) {
  BodyOutcome outcome;
  std::string repeated;
  Result<JsonValue> root = parse_json(json, repeated);
  if (!root) {
    outcome.error = RequestError{400, "the body is not valid JSON: " + root.error().message, "",
                                 "invalid_json"};
    return outcome;
  }
  if (!repeated.empty()) {
    outcome.error = repeated_field(repeated);
    return outcome;
  }
  BodyReader reader(endpoint, rules);
  outcome.error = reader.read(*root);
  if (outcome.ok()) outcome.body = reader.take();
  return outcome;
}

} // namespace troupe::text
