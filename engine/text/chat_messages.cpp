// `messages` of a chat body.

#include "engine/text/chat_fields.hpp"

#include <algorithm>
#include <array>
#include <unordered_set>

namespace troupe::text {
namespace {

constexpr std::array<std::string_view, 7> kMessageFields = {
    "role", "content", "name", "reasoning_content", "tool_calls", "tool_call_id", "prefix"};
constexpr std::array<std::string_view, 4> kCallFields = {"id", "type", "function", "index"};
constexpr std::array<std::string_view, 2> kFunctionFields = {"name", "arguments"};
constexpr std::array<std::string_view, 2> kPartFields = {"type", "text"};
constexpr std::array<std::pair<std::string_view, Role>, 5> kRoles = {{
    {"system", Role::system},
    {"user", Role::user},
    {"assistant", Role::assistant},
    {"tool", Role::tool},
    {"latest_reminder", Role::latest_reminder},
}};

bool is_in(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Member that is there and not null.
const JsonValue* present(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

/// Refuses what is no object, and members that are not in `known`; null ones are as absent.
Refusal check_members(const std::string& path, const JsonValue& value,
                      std::span<const std::string_view> known) {
  if (value.object() == nullptr) return wrong_type(path, value, "an object");
  for (const JsonMember& member : *value.object()) {
    if (!member.value.is_null() && !is_in(member.key, known)) {
      return unknown_field(path, member.key, known);
    }
  }
  return std::nullopt;
}

/// Reads a required string member.
Refusal read_member(const std::string& path, const JsonValue& object, std::string_view key,
                    std::string& out) {
  const JsonValue* value = present(object, key);
  if (value == nullptr) return missing_field(path_of(path, key), "a string");
  return read_string(path_of(path, key), *value, out);
}

Refusal read_role(const std::string& path, const JsonValue& message, Role& role) {
  std::string name;
  if (Refusal no = read_member(path, message, "role", name)) return no;
  for (const auto& [spelling, value] : kRoles) {
    if (name == spelling) {
      role = value;
      return std::nullopt;
    }
  }
  const bool is_developer = name == "developer";
  const std::string problem = found_and_expected(
      JsonValue(std::move(name)), "system, user, assistant, tool or latest_reminder");
  if (is_developer) {
    return unsupported_value(path_of(path, "role"), problem + " (send such a message as system)");
  }
  return wrong_value(path_of(path, "role"), problem);
}

/// Text parts are joined by a blank line.
Refusal read_parts(const std::string& path, const JsonValue::Array& parts, std::string& out) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string part_path = path_of(path, i);
    const JsonValue& part = parts[i];
    if (part.object() == nullptr) return wrong_type(part_path, part, "an object");
    std::string type;
    if (Refusal no = read_member(part_path, part, "type", type)) return no;
    if (type != "text") {
      return unsupported_value(
          path_of(part_path, "type"),
          found_and_expected(JsonValue(std::move(type)),
                             "\"text\": images, files, audio and video are not supported"));
    }
    if (Refusal no = check_members(part_path, part, kPartFields)) return no;
    std::string text;
    if (Refusal no = read_member(part_path, part, "text", text)) return no;
    if (i > 0) out += "\n\n";
    out += text;
  }
  return std::nullopt;
}

Refusal read_content(const std::string& path, const JsonValue& message, ChatMessage& out,
                     bool& has_content) {
  const std::string content_path = path_of(path, "content");
  const JsonValue* content = present(message, "content");
  has_content = content != nullptr;
  if (content == nullptr) {
    if (out.role == Role::assistant) return std::nullopt;
    return missing_field(content_path, "a string or an array of text parts");
  }
  if (content->array() != nullptr && out.role != Role::latest_reminder) {
    return read_parts(content_path, *content->array(), out.content);
  }
  if (content->string() == nullptr) {
    return wrong_type(content_path, *content,
                      out.role == Role::latest_reminder ? "a string"
                                                        : "a string or an array of text parts");
  }
  out.content = *content->string();
  return std::nullopt;
}

Refusal read_call(const std::string& path, const JsonValue& value, ToolCall& call) {
  if (Refusal no = check_members(path, value, kCallFields)) return no;
  if (Refusal no = read_member(path, value, "id", call.id)) return no;
  std::string type;
  if (Refusal no = read_member(path, value, "type", type)) return no;
  if (type != "function") {
    return unsupported_value(path_of(path, "type"),
                             found_and_expected(JsonValue(std::move(type)), "\"function\""));
  }
  const std::string function_path = path_of(path, "function");
  const JsonValue* function = present(value, "function");
  if (function == nullptr) return missing_field(function_path, "an object");
  if (Refusal no = check_members(function_path, *function, kFunctionFields)) return no;
  if (Refusal no = read_member(function_path, *function, "name", call.name)) return no;
  return read_member(function_path, *function, "arguments", call.arguments);
}

Refusal read_calls(const std::string& path, const JsonValue& value, std::vector<ToolCall>& calls) {
  if (value.array() == nullptr) return wrong_type(path, value, "an array of calls");
  if (value.array()->empty()) return wrong_value(path, "is empty, expected at least one call");
  std::unordered_set<std::string> ids;
  for (std::size_t i = 0; i < value.array()->size(); ++i) {
    ToolCall call;
    const std::string call_path = path_of(path, i);
    if (Refusal no = read_call(call_path, (*value.array())[i], call)) return no;
    if (!ids.insert(call.id).second) {
      return wrong_value(path_of(call_path, "id"), "repeats the id of another call");
    }
    calls.push_back(std::move(call));
  }
  return std::nullopt;
}

Refusal read_assistant(const std::string& path, const JsonValue& message, Strictness strictness,
                       bool has_content, ChatMessage& out) {
  if (const JsonValue* reasoning = present(message, "reasoning_content")) {
    out.has_reasoning = true;
    Refusal no = read_string(path_of(path, "reasoning_content"), *reasoning, out.reasoning);
    if (no) return no;
  }
  if (const JsonValue* calls = present(message, "tool_calls")) {
    if (Refusal no = read_calls(path_of(path, "tool_calls"), *calls, out.tool_calls)) return no;
  }
  if (!has_content && out.tool_calls.empty()) {
    return missing_field(path_of(path, "content"), "a string, unless there are tool_calls");
  }
  if (const JsonValue* prefix = present(message, "prefix")) {
    if (Refusal no = read_bool(path_of(path, "prefix"), *prefix, out.prefix)) return no;
    if (out.prefix && strictness == Strictness::run) {
      return unsupported_value(path_of(path, "prefix"), "must be false: continuing a message is "
                                                        "not supported");
    }
  }
  return std::nullopt;
}

/// A field that the message's role does not have. Rendering ignores it, running refuses it.
Refusal check_role_fields(const std::string& path, const JsonValue& message, Role role) {
  for (const JsonMember& member : *message.object()) {
    const bool of_assistant =
        member.key == "reasoning_content" || member.key == "tool_calls" || member.key == "prefix";
    const bool of_tool = member.key == "tool_call_id";
    const bool* flag = member.value.boolean();
    if (member.value.is_null() || (flag != nullptr && !*flag)) continue;
    if ((of_assistant && role != Role::assistant) || (of_tool && role != Role::tool)) {
      return unsupported_field(path_of(path, member.key),
                               of_tool ? "belongs to messages of role tool"
                                       : "belongs to messages of role assistant");
    }
  }
  return std::nullopt;
}

Refusal read_message(const std::string& path, const JsonValue& value, Strictness strictness,
                     ChatMessage& out) {
  if (Refusal no = check_members(path, value, kMessageFields)) return no;
  if (Refusal no = read_role(path, value, out.role)) return no;
  if (strictness == Strictness::run) {
    if (Refusal no = check_role_fields(path, value, out.role)) return no;
  }
  bool has_content = false;
  if (Refusal no = read_content(path, value, out, has_content)) return no;
  if (const JsonValue* name = present(value, "name")) { // Names are not part of the prompt.
    std::string ignored;
    if (Refusal no = read_string(path_of(path, "name"), *name, ignored)) return no;
  }
  if (out.role == Role::tool) return read_member(path, value, "tool_call_id", out.tool_call_id);
  if (out.role != Role::assistant) return std::nullopt;
  return read_assistant(path, value, strictness, has_content, out);
}

/// Each call is answered right after it, and only calls are answered.
Refusal check_answers(const std::vector<ChatMessage>& messages) {
  std::size_t i = 0;
  while (i < messages.size()) {
    const ChatMessage& message = messages[i];
    const std::string path = path_of("messages", i);
    if (message.role == Role::tool) {
      return wrong_value(path, "has role tool, but answers no call of a message right before it");
    }
    ++i;
    std::unordered_set<std::string_view> open;
    for (const ToolCall& call : message.tool_calls)
      open.insert(call.id);
    while (!open.empty()) {
      if (i == messages.size() || messages[i].role != Role::tool) {
        return wrong_value(path_of(path, "tool_calls"),
                           "has a call without an answer: a message of role tool must follow "
                           "for each call, at once");
      }
      if (open.erase(messages[i].tool_call_id) == 0) {
        return wrong_value(path_of(path_of("messages", i), "tool_call_id"),
                           "names no open call of the message before it");
      }
      ++i;
    }
  }
  return std::nullopt;
}

} // namespace

Refusal read_messages(const JsonValue& value, Strictness strictness,
                      std::vector<ChatMessage>& messages) {
  const std::string path = "messages";
  if (value.array() == nullptr) return wrong_type(path, value, "an array of messages");
  const JsonValue::Array& items = *value.array();
  if (items.empty()) return wrong_value(path, "is empty, expected at least one message");
  for (std::size_t i = 0; i < items.size(); ++i) {
    ChatMessage message;
    if (Refusal no = read_message(path_of(path, i), items[i], strictness, message)) return no;
    if (message.prefix && i + 1 < items.size()) {
      return wrong_value(path_of(path_of(path, i), "prefix"),
                         "is only possible on the last message");
    }
    const bool repeats = message.role == Role::latest_reminder && !messages.empty() &&
                         messages.back().role == Role::latest_reminder;
    if (repeats && strictness == Strictness::run) {
      return unsupported_value(path_of(path, i), "is a second reminder in a row, of which the "
                                                 "model would see the first only");
    }
    messages.push_back(std::move(message));
  }
  return check_answers(messages);
}

} // namespace troupe::text
