#include "engine/text/chat_format.hpp"

#include "engine/text/json_value.hpp"
#include "engine/text/request_error.hpp"
#include "engine/text/text_file.hpp"

#include <algorithm>
#include <array>

namespace troupe::text {
namespace {

constexpr std::int64_t kEffortMax = 100;
constexpr std::array<std::string_view, 7> kKeys = {
    "dialect",      "effort_line",  "effort_names",          "effort_default",
    "tools_header", "tools_footer", "response_format_header"};

Refusal read_names(const JsonValue& value, ChatFormat& format) {
  const std::string path = "effort_names";
  if (value.object() == nullptr) return wrong_type(path, value, "an object of name: number");
  if (value.object()->empty()) return wrong_value(path, "is empty, expected at least one effort");
  for (const JsonMember& member : *value.object()) {
    std::int64_t effort = 0;
    const std::string name_path = path_of(path, member.key);
    if (Refusal no = read_integer(name_path, member.value, 1, kEffortMax, effort)) return no;
    format.effort_names.emplace_back(member.key, effort);
  }
  return std::nullopt;
}

Refusal read_dialect(const JsonValue& value, ChatFormat& format) {
  std::string name;
  if (Refusal no = read_string("dialect", value, name)) return no;
  if (name == "v4") {
    format.dialect = Dialect::v4;
  } else if (name == "v4.1") {
    format.dialect = Dialect::v4_1;
  } else {
    return wrong_value("dialect", "is unknown, expected \"v4\" or \"v4.1\"");
  }
  return std::nullopt;
}

Refusal read_effort_line(const JsonValue& value, ChatFormat& format) {
  if (Refusal no = read_string("effort_line", value, format.effort_line)) return no;
  if (format.effort_line.find("{n}") != std::string::npos) return std::nullopt;
  return wrong_value("effort_line", "lacks {n}, the place of the number");
}

Refusal read_format(const JsonValue& root, ChatFormat& format) {
  for (const JsonMember& member : *root.object()) {
    if (std::find(kKeys.begin(), kKeys.end(), member.key) == kKeys.end()) {
      return unknown_field("", member.key, kKeys);
    }
  }
  std::array<const JsonValue*, kKeys.size()> values{};
  for (std::size_t i = 0; i < kKeys.size(); ++i) {
    values.at(i) = root.find(kKeys.at(i));
    if (values.at(i) == nullptr) return missing_field(std::string(kKeys.at(i)), "a value");
  }
  if (Refusal no = read_dialect(*values[0], format)) return no;
  if (Refusal no = read_effort_line(*values[1], format)) return no;
  if (Refusal no = read_names(*values[2], format)) return no;
  if (Refusal no =
          read_integer("effort_default", *values[3], 1, kEffortMax, format.effort_default)) {
    return no;
  }
  if (Refusal no = read_string("tools_header", *values[4], format.tools_header)) return no;
  if (Refusal no = read_string("tools_footer", *values[5], format.tools_footer)) return no;
  return read_string("response_format_header", *values[6], format.response_format_header);
}

} // namespace

std::optional<std::int64_t> ChatFormat::effort_of(std::string_view name) const {
  for (const auto& [known, effort] : effort_names) {
    if (known == name) return effort;
  }
  return std::nullopt;
}

std::int64_t ChatFormat::effort_max() const noexcept {
  std::int64_t highest = 0;
  for (const auto& [name, effort] : effort_names)
    highest = std::max(highest, effort);
  return highest;
}

Result<ChatFormat> load_chat_format(const std::string& path) {
  Result<std::string> json = read_text_file(path);
  if (!json) return json.error();
  return parse_chat_format(*json, path);
}

Result<ChatFormat> parse_chat_format(std::string_view json, const std::string& name) {
  const auto refused = [&name](const std::string& what) {
    return Error{ErrorCode::bad_checkpoint,
                 name + ": " + what + "; repair the file or fetch it again"};
  };
  std::string repeated;
  Result<JsonValue> root = parse_json(json, repeated);
  if (!root) return refused("is no valid JSON, expected one object: " + root.error().message);
  if (!repeated.empty()) return refused(repeated_field(repeated).message);
  if (root->object() == nullptr) {
    return refused("is " + std::string(root->kind_name()) + ", expected one object");
  }
  ChatFormat format;
  if (const Refusal no = read_format(*root, format)) return refused(no->message);
  return format;
}

} // namespace troupe::text
