// The JSON `body` of both URLs → one plain, checked struct, or the error a client gets.
//
// A field that nothing honours is refused by name, never dropped. `null` is as absent, everywhere.

#pragma once

#include "engine/text/chat_format.hpp"
#include "engine/text/chat_request.hpp"
#include "engine/text/request_error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

enum class Endpoint : std::uint8_t { chat_completions, completions };

/// One prompt of /v1/completions: text (added tokens are matched), or ids.
struct CompletionPrompt {
  bool is_ids = false;
  std::string text;
  std::vector<std::int32_t> ids;
};

/// What a body says. An optional is empty when the client left the field out.
struct RequestBody {
  Endpoint endpoint = Endpoint::chat_completions;
  std::string model_json = "null"; ///< `model` as JSON text, to be reported back.

  // Sampling.
  std::optional<double> temperature; ///< 0..2
  std::optional<double> top_p;       ///< (0, 1]
  std::optional<std::int64_t> top_k; ///< 0 = no limit; the client's -1 becomes 0.
  std::optional<std::uint64_t> seed; ///< 0..2^63-1
  std::int32_t top_logprobs = -1;    ///< -1 none, 0 the drawn token only, 1..20 also the n best.

  // Ends.
  std::optional<std::int64_t> max_tokens; ///< 1..393216; max_completion_tokens is the same field.
  std::int64_t min_tokens = 0;            ///< 0..max_tokens
  std::vector<std::string> stop;          ///< At most 16, none empty.
  std::vector<std::int32_t> stop_token_ids;
  bool ignore_eos = false;

  // Who asks.
  std::string user;       ///< "" when absent: the tenant.
  std::string session_id; ///< metadata.session_id, "" when absent.
  std::optional<std::int64_t> priority;

  ChatRequest chat;                      ///< chat_completions
  std::vector<CompletionPrompt> prompts; ///< completions: one choice each, never empty.
  bool stream = false;                   ///< Only with Strictness::render.
};

/// What is accepted.
enum class Strictness : std::uint8_t {
  run,    ///< What a batch can honour.
  render, ///< Also what only matters when running: response_format, forced tool_choice, prefix,
          ///< stream, penalties, logit_bias.
};

/// What the checks depend on.
struct BodyRules {
  Strictness strictness = Strictness::run;
  const ChatFormat* format = nullptr; ///< None: chat is refused. Must outlive the call only.
  std::int64_t vocab = 0;             ///< Ids must lie below; 0 = unknown, only >= 0 is checked.
  std::int64_t choices_max = 128;     ///< Prompts in one body.
  bool thinking_default = true;
  bool reject_missing_reasoning = false; ///< With thinking and tools, history must bring reasoning.
};

/// A body or the reason why not.
struct BodyOutcome {
  RequestBody body;
  std::optional<RequestError> error;

  bool ok() const noexcept { return !error.has_value(); }
};

/// Parses and checks one body. Pure.
///
/// @param json  UTF-8 text of one JSON object; anything else is an error, never a crash
BodyOutcome parse_request_body(Endpoint endpoint, std::string_view json, const BodyRules& rules);

} // namespace troupe::text
