// `tools`, `tool_choice`, `response_format` and the thinking fields of a chat body.

#include "engine/text/chat_fields.hpp"
#include "engine/text/json_schema.hpp"

#include <algorithm>
#include <array>
#include <unordered_set>

namespace troupe::text {
namespace {

constexpr std::array<std::string_view, 2> kToolFields = {"type", "function"};
constexpr std::array<std::string_view, 4> kFunctionFields = {"name", "description", "parameters",
                                                             "strict"};
constexpr std::array<std::string_view, 2> kChoiceFields = {"type", "function"};
constexpr std::array<std::string_view, 1> kChoiceFunctionFields = {"name"};
constexpr std::array<std::string_view, 3> kFormatFields = {"type", "json_schema", "regex"};
constexpr std::array<std::string_view, 4> kSchemaFields = {"name", "description", "schema",
                                                           "strict"};
constexpr std::array<std::string_view, 2> kThinkingFields = {"type", "budget_tokens"};
constexpr std::array<std::string_view, 2> kKwargs = {"thinking", "enable_thinking"};

/// Member that is there and not null.
const JsonValue* present(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Refusal check_members(const std::string& path, const JsonValue& value,
                      std::span<const std::string_view> known) {
  if (value.object() == nullptr) return wrong_type(path, value, "an object");
  for (const JsonMember& member : *value.object()) {
    const bool is_known = std::find(known.begin(), known.end(), member.key) != known.end();
    if (!is_known && !member.value.is_null()) return unknown_field(path, member.key, known);
  }
  return std::nullopt;
}

Refusal check_function_name(const std::string& path, const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  if (!name.empty() && std::all_of(name.begin(), name.end(), allowed)) return std::nullopt;
  return wrong_value(path, found_and_expected(JsonValue(name), "letters, digits, _ and -, at least "
                                                               "one"));
}

/// The schema of a function's parameters, as it is rendered.
Refusal read_parameters(const std::string& path, const JsonValue& function, Strictness strictness,
                        bool& strict, JsonValue& out) {
  if (const JsonValue* value = present(function, "strict")) {
    if (Refusal no = read_bool(path_of(path, "strict"), *value, strict)) return no;
    if (strict && strictness == Strictness::run) {
      return unsupported_value(path_of(path, "strict"),
                               "must be false: calls are not held to their schema");
    }
  }
  const std::string parameters_path = path_of(path, "parameters");
  const JsonValue* parameters = present(function, "parameters");
  if (parameters == nullptr) {
    JsonValue::Object none;
    if (strict) none.push_back({"type", JsonValue(std::string("object"))});
    out = JsonValue(std::move(none));
    if (strict) return strict_schema(parameters_path, JsonValue(out), out);
    return std::nullopt;
  }
  if (Refusal no = check_schema(parameters_path, *parameters)) return no;
  const JsonValue* type = parameters->find("type");
  if (type == nullptr || type->string() == nullptr || *type->string() != "object") {
    return wrong_value(path_of(parameters_path, "type"), "must be \"object\"");
  }
  if (strict) return strict_schema(parameters_path, *parameters, out);
  out = *parameters;
  return std::nullopt;
}

Refusal read_tool(const std::string& path, const JsonValue& value, Strictness strictness,
                  bool& strict, ChatTool& tool) {
  if (Refusal no = check_members(path, value, kToolFields)) return no;
  const JsonValue* type = present(value, "type");
  if (type == nullptr) return missing_field(path_of(path, "type"), "\"function\"");
  if (type->string() == nullptr || *type->string() != "function") {
    return unsupported_value(path_of(path, "type"), found_and_expected(*type, "\"function\""));
  }
  const std::string function_path = path_of(path, "function");
  const JsonValue* function = present(value, "function");
  if (function == nullptr) return missing_field(function_path, "an object");
  if (Refusal no = check_members(function_path, *function, kFunctionFields)) return no;
  const JsonValue* name = present(*function, "name");
  const std::string name_path = path_of(function_path, "name");
  if (name == nullptr) return missing_field(name_path, "a string");
  if (Refusal no = read_string(name_path, *name, tool.name)) return no;
  if (Refusal no = check_function_name(name_path, tool.name)) return no;
  std::string description;
  if (const JsonValue* text = present(*function, "description")) {
    if (Refusal no = read_string(path_of(function_path, "description"), *text, description)) {
      return no;
    }
  }
  JsonValue parameters;
  if (Refusal no = read_parameters(function_path, *function, strictness, strict, parameters))
    return no;
  JsonValue::Object line;
  line.push_back({"name", JsonValue(tool.name)});
  line.push_back({"description", JsonValue(std::move(description))});
  line.push_back({"parameters", std::move(parameters)});
  tool.schema_line = python_json(JsonValue(std::move(line)));
  return std::nullopt;
}

Refusal read_schema_format(const std::string& path, const JsonValue& value,
                           ResponseFormat& format) {
  const JsonValue* holder = present(value, "json_schema");
  const std::string holder_path = path_of(path, "json_schema");
  if (holder == nullptr) return missing_field(holder_path, "an object with a schema");
  if (Refusal no = check_members(holder_path, *holder, kSchemaFields)) return no;
  const std::string schema_path = path_of(holder_path, "schema");
  const JsonValue* schema = present(*holder, "schema");
  if (schema == nullptr) return missing_field(schema_path, "a JSON schema");
  if (Refusal no = check_schema(schema_path, *schema)) return no;
  bool strict = false;
  if (const JsonValue* flag = present(*holder, "strict")) {
    if (Refusal no = read_bool(path_of(holder_path, "strict"), *flag, strict)) return no;
  }
  if (strict) {
    JsonValue checked; // The prompt shows the schema as it was sent.
    if (Refusal no = strict_schema(schema_path, *schema, checked)) return no;
    const JsonValue* type = schema->find("type");
    if (type == nullptr || type->string() == nullptr || *type->string() != "object") {
      return wrong_value(path_of(schema_path, "type"), "must be \"object\" in a strict schema");
    }
  }
  format.kind = ResponseFormatKind::json_schema;
  format.schema_line = python_json(*schema);
  return std::nullopt;
}

bool contains_json(std::string_view text) {
  constexpr std::string_view kWord = "json";
  const auto same = [](char a, char b) { return (a | 0x20) == b; };
  return std::search(text.begin(), text.end(), kWord.begin(), kWord.end(), same) != text.end();
}

} // namespace

Refusal read_tools(const JsonValue& value, Strictness strictness, std::vector<ChatTool>& tools) {
  const std::string path = "tools";
  if (value.array() == nullptr) return wrong_type(path, value, "an array of tools");
  std::unordered_set<std::string> names;
  bool all_strict = false;
  for (std::size_t i = 0; i < value.array()->size(); ++i) {
    ChatTool tool;
    const std::string tool_path = path_of(path, i);
    bool strict = false;
    if (Refusal no = read_tool(tool_path, (*value.array())[i], strictness, strict, tool)) return no;
    if (i > 0 && strict != all_strict) {
      return wrong_value(path_of(tool_path, "function.strict"),
                         "differs from the tools before: either all are strict or none");
    }
    all_strict = strict;
    if (!names.insert(tool.name).second) {
      return wrong_value(path_of(tool_path, "function.name"), "repeats the name of another tool");
    }
    tools.push_back(std::move(tool));
  }
  return std::nullopt;
}

Refusal read_tool_choice(const JsonValue& value, Strictness strictness, ChatRequest& chat) {
  const std::string path = "tool_choice";
  if (const std::string* name = value.string()) {
    if (*name == "auto") {
      chat.tool_choice = ToolChoice::automatic;
    } else if (*name == "none") {
      chat.tool_choice = ToolChoice::none;
    } else if (*name == "required") {
      chat.tool_choice = ToolChoice::required;
    } else {
      return wrong_value(
          path, found_and_expected(value, "\"auto\", \"none\", \"required\" or a function"));
    }
  } else {
    if (Refusal no = check_members(path, value, kChoiceFields)) return no;
    const JsonValue* type = present(value, "type");
    if (type == nullptr) return missing_field(path_of(path, "type"), "\"function\"");
    if (type->string() == nullptr || *type->string() != "function") {
      return wrong_value(path_of(path, "type"), found_and_expected(*type, "\"function\""));
    }
    const std::string function_path = path_of(path, "function");
    const JsonValue* function = present(value, "function");
    if (function == nullptr) return missing_field(function_path, "an object with a name");
    if (Refusal no = check_members(function_path, *function, kChoiceFunctionFields)) return no;
    const JsonValue* name_value = present(*function, "name");
    if (name_value == nullptr) return missing_field(path_of(function_path, "name"), "a string");
    if (Refusal no =
            read_string(path_of(function_path, "name"), *name_value, chat.tool_choice_name)) {
      return no;
    }
    chat.tool_choice = ToolChoice::function;
  }
  const bool forced =
      chat.tool_choice == ToolChoice::required || chat.tool_choice == ToolChoice::function;
  if (forced && strictness == Strictness::run) {
    return unsupported_value(
        path, found_and_expected(value, "\"auto\" or \"none\": forced calls are not supported"));
  }
  return std::nullopt;
}

Refusal read_response_format(const JsonValue& value, Strictness strictness,
                             ResponseFormat& format) {
  const std::string path = "response_format";
  if (Refusal no = check_members(path, value, kFormatFields)) return no;
  const JsonValue* type = present(value, "type");
  if (type == nullptr) return missing_field(path_of(path, "type"), "\"text\"");
  std::string name;
  if (Refusal no = read_string(path_of(path, "type"), *type, name)) return no;
  if (name == "text") {
    format.kind = ResponseFormatKind::text;
    return std::nullopt;
  }
  if (name != "json_object" && name != "json_schema" && name != "regex") {
    return wrong_value(
        path_of(path, "type"),
        found_and_expected(*type, "\"text\", \"json_object\", \"json_schema\" or \"regex\""));
  }
  if (strictness == Strictness::run) {
    return unsupported_value(
        path_of(path, "type"),
        found_and_expected(*type, "\"text\": answers are not held to a format"));
  }
  if (name == "json_schema") return read_schema_format(path, value, format);
  if (name == "json_object") {
    format.kind = ResponseFormatKind::json_object;
    format.schema_line = R"({"type": "json_object"})";
    return std::nullopt;
  }
  const JsonValue* regex = present(value, "regex");
  if (regex == nullptr) return missing_field(path_of(path, "regex"), "a string");
  format.kind = ResponseFormatKind::regex;
  std::string ignored; // A regular expression is no part of the prompt.
  return read_string(path_of(path, "regex"), *regex, ignored);
}

Refusal read_thinking(const JsonValue& value, Strictness strictness, ThinkingFields& fields) {
  const std::string path = "thinking";
  if (Refusal no = check_members(path, value, kThinkingFields)) return no;
  if (present(value, "budget_tokens") != nullptr && strictness == Strictness::run) {
    return unsupported_field(path_of(path, "budget_tokens"),
                             "is not supported: bound the answer with max_tokens");
  }
  const JsonValue* type = present(value, "type");
  const std::string type_path = path_of(path, "type");
  if (type == nullptr) return missing_field(type_path, "\"enabled\" or \"disabled\"");
  std::string name;
  if (Refusal no = read_string(type_path, *type, name)) return no;
  if (name != "enabled" && name != "adaptive" && name != "disabled") {
    return wrong_value(type_path,
                       found_and_expected(*type, "\"enabled\", \"adaptive\" or \"disabled\""));
  }
  fields.by_field = name != "disabled";
  return std::nullopt;
}

Refusal read_template_kwargs(const JsonValue& value, ThinkingFields& fields) {
  const std::string path = "chat_template_kwargs";
  if (Refusal no = check_members(path, value, kKwargs)) return no;
  for (const std::string_view key : kKwargs) {
    const JsonValue* flag = present(value, key);
    if (flag == nullptr) continue;
    bool on = false;
    if (Refusal no = read_bool(path_of(path, key), *flag, on)) return no;
    if (fields.by_kwargs.value_or(on) != on) {
      return wrong_value(path, "has thinking and enable_thinking with different values");
    }
    fields.by_kwargs = on;
  }
  return std::nullopt;
}

Refusal read_effort(const JsonValue& value, const ChatFormat& format, ThinkingFields& fields) {
  const std::string path = "reasoning_effort";
  std::string name;
  if (value.is_number()) {
    return unsupported_value(path, "is a number, only the names of efforts are supported");
  }
  if (Refusal no = read_string(path, value, name)) return no;
  if (name != "none" && !format.effort_of(name)) {
    std::string known = "\"none\"";
    for (const auto& [known_name, n] : format.effort_names)
      known += ", \"" + known_name + "\"";
    return wrong_value(path, "is no effort of this model, expected one of " + known);
  }
  fields.effort = std::move(name);
  return std::nullopt;
}

Refusal resolve_thinking(const ThinkingFields& fields, const BodyRules& rules, ChatRequest& chat) {
  if (fields.by_field && fields.by_kwargs && *fields.by_field != *fields.by_kwargs) {
    return wrong_value("chat_template_kwargs", "contradicts `thinking`");
  }
  const bool named = fields.effort && *fields.effort != "none";
  chat.thinking = fields.effort ? named : rules.thinking_default;
  if (fields.by_kwargs) chat.thinking = *fields.by_kwargs;
  if (fields.by_field) chat.thinking = *fields.by_field;
  chat.effort =
      named ? rules.format->effort_of(*fields.effort).value_or(0) : rules.format->effort_default;
  chat.effort_is_max = named && chat.effort == rules.format->effort_max();
  return std::nullopt;
}

Refusal check_chat(const BodyRules& rules, const ChatRequest& chat) {
  const std::vector<ChatMessage>& messages = chat.messages;
  const bool forced =
      chat.tool_choice == ToolChoice::required || chat.tool_choice == ToolChoice::function;
  if (forced && !chat.tools.empty()) {
    if (chat.thinking) {
      return unsupported_value("tool_choice", "cannot force a call while the model thinks");
    }
    const auto named = [&chat](const ChatTool& tool) { return tool.name == chat.tool_choice_name; };
    if (chat.tool_choice == ToolChoice::function &&
        std::none_of(chat.tools.begin(), chat.tools.end(), named)) {
      return wrong_value("tool_choice.function.name", "is not among `tools`");
    }
  }
  if (messages.back().prefix) {
    const std::string path = path_of(path_of("messages", messages.size() - 1), "prefix");
    const bool calls =
        std::any_of(messages.begin(), messages.end(),
                    [](const ChatMessage& message) { return !message.tool_calls.empty(); });
    if (!chat.tools.empty() || calls) {
      return unsupported_value(path, "cannot be used with `tools` or calls in the history");
    }
    if (chat.response_format.kind == ResponseFormatKind::json_object) {
      return unsupported_value(path, "cannot be used with a json_object format");
    }
  }
  if (chat.response_format.kind == ResponseFormatKind::json_object &&
      std::none_of(messages.begin(), messages.end(),
                   [](const ChatMessage& message) { return contains_json(message.content); })) {
    return wrong_value("response_format",
                       "of type json_object needs the word \"json\" in a message");
  }
  if (rules.reject_missing_reasoning && chat.thinking) {
    for (std::size_t i = messages.size(); i > 0 && messages[i - 1].role != Role::user; --i) {
      const ChatMessage& message = messages[i - 1];
      if (!message.tool_calls.empty() && !message.has_reasoning) {
        return missing_field(path_of(path_of("messages", i - 1), "reasoning_content"),
                             "the reasoning of this turn, as the model thinks");
      }
    }
  }
  return std::nullopt;
}

} // namespace troupe::text
