// One conversation as plain data: what a Chat Completions body says, checked, without JSON.

#pragma once

#include "engine/text/output_parser.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::text {

enum class Role : std::uint8_t { system, user, assistant, tool, latest_reminder };

/// A call that an assistant message of the history made.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments; ///< As the client sent them, usually a JSON object.
};

/// One message. Fields that its role does not have are empty.
struct ChatMessage {
  Role role = Role::user;
  std::string content;   ///< Text parts joined by a blank line.
  std::string reasoning; ///< assistant
  bool has_reasoning = false;
  std::vector<ToolCall> tool_calls; ///< assistant
  std::string tool_call_id;         ///< tool
  bool prefix = false;              ///< assistant, last message: the answer goes on from here.
};

/// A function that the model may call.
struct ChatTool {
  std::string name;
  std::string schema_line; ///< Name, description, parameters as one line of JSON, as rendered.
};

enum class ToolChoice : std::uint8_t { automatic, none, required, function };

enum class ResponseFormatKind : std::uint8_t { text, json_object, json_schema, regex };

/// What the answer must look like.
struct ResponseFormat {
  ResponseFormatKind kind = ResponseFormatKind::text;
  std::string schema_line; ///< json_object, json_schema: one line of JSON, as rendered.
};

/// A checked conversation, ready to render.
struct ChatRequest {
  std::vector<ChatMessage> messages; ///< Never empty.
  std::vector<ChatTool> tools;       ///< As sent, also with ToolChoice::none.
  ToolChoice tool_choice = ToolChoice::automatic;
  std::string tool_choice_name; ///< ToolChoice::function
  bool thinking = true;
  std::int64_t effort = 0;    ///< 1..100, resolved; meaningless without thinking.
  bool effort_is_max = false; ///< The largest effort of the format: a larger token default.
  ResponseFormat response_format;

  /// True when the prompt lists tools: there are some and they are not switched off.
  bool offers_tools() const noexcept { return !tools.empty() && tool_choice != ToolChoice::none; }

  /// True when the prompt ends inside a block of calls, which the model must fill.
  bool forces_call() const noexcept {
    return !tools.empty() && !thinking &&
           (tool_choice == ToolChoice::required || tool_choice == ToolChoice::function);
  }
};

/// How the output of this conversation is to be parsed; stop strings are left to the caller. Pure.
ParserOptions parser_options(const ChatRequest& request);

} // namespace troupe::text
