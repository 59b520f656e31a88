// Readers of the chat part of a body: messages, tools, choice, format, thinking.

#pragma once

#include "engine/text/json_value.hpp"
#include "engine/text/request_body.hpp"

namespace troupe::text {

/// Reads `messages` with all rules about roles and about calls and their answers.
Refusal read_messages(const JsonValue& value, Strictness strictness,
                      std::vector<ChatMessage>& messages);

/// Reads `tools`.
Refusal read_tools(const JsonValue& value, Strictness strictness, std::vector<ChatTool>& tools);

/// Reads `tool_choice`; whether it fits the tools is checked by check_chat().
Refusal read_tool_choice(const JsonValue& value, Strictness strictness, ChatRequest& chat);

/// Reads `response_format`.
Refusal read_response_format(const JsonValue& value, Strictness strictness, ResponseFormat& format);

/// What a body says about thinking, before defaults.
struct ThinkingFields {
  std::optional<bool> by_field;  ///< thinking.type
  std::optional<bool> by_kwargs; ///< chat_template_kwargs
  std::optional<std::string> effort;
};

/// Reads `thinking`, `chat_template_kwargs`, `reasoning_effort`.
Refusal read_thinking(const JsonValue& value, Strictness strictness, ThinkingFields& fields);
Refusal read_template_kwargs(const JsonValue& value, ThinkingFields& fields);
Refusal read_effort(const JsonValue& value, const ChatFormat& format, ThinkingFields& fields);

/// Resolves thinking and effort: the thinking field, then chat_template_kwargs, then effort "none",
/// then the default.
Refusal resolve_thinking(const ThinkingFields& fields, const BodyRules& rules, ChatRequest& chat);

/// Rules between fields of a chat body, once all of them are read.
Refusal check_chat(const BodyRules& rules, const ChatRequest& chat);

} // namespace troupe::text
