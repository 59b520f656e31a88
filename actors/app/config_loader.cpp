#include "actors/app/config_loader.hpp"

#include "actors/app/config_bind.hpp"
#include "actors/app/config_sim.hpp"
#include "engine/text/text_file.hpp"
#include "schedulers/core/printable.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <optional>

namespace troupe::app {

namespace {

constexpr std::int64_t kFileBytesMax = 4 << 20;

// The library parses and frees nested values by recursion; dotted keys nest without brackets.
constexpr std::int64_t kBracketsMax = 32;
constexpr std::int64_t kKeyPartsMax = 16;

constexpr std::size_t kMessageBytesMax = 4096; ///< What a parser or a policy says is bounded too.

/// What is nested too deep, if anything: a look at the text before it is parsed.
class NestingCheck {
public:
  explicit NestingCheck(std::string_view text) : text_(text) {}

  /// Line of the first place that is too deep; 0 when there is none.
  std::int64_t first_line() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (c == '"' || c == '\'') {
        skip_quoted(c);
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
      } else if (c == '[' || c == '{') {
        ++brackets_;
      } else if (c == ']' || c == '}') {
        brackets_ = std::max<std::int64_t>(brackets_ - 1, 0);
      }
      if (c == '.') ++dots_;
      if (c == '\n' || c == '=' || c == ',' || c == '{' || c == '[') dots_ = 0;
      if (brackets_ > kBracketsMax || dots_ >= kKeyPartsMax) return line_;
    }
    return 0;
  }

private:
  /// Goes to the last character of a quoted text. One that does not end is the parser's to report.
  void skip_quoted(char quote) {
    const std::string three(3, quote);
    const bool is_long = text_.substr(at_, 3) == three;
    for (at_ += is_long ? 3 : 1; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        if (!is_long) {
          --at_;
          return;
        }
        ++line_;
      }
      if (c == '\\' && quote == '"') {
        ++at_;
      } else if (c == quote && (!is_long || text_.substr(at_, 3) == three)) {
        at_ += is_long ? 2 : 0;
        return;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
  std::int64_t brackets_ = 0;
  std::int64_t dots_ = 0; ///< Of the key that is being read.
};

ConfigNode convert(const toml::node& node, const std::string& file) {
  ConfigNode out;
  out.file = file;
  out.line = static_cast<std::int64_t>(node.source().begin.line);
  if (const toml::table* table = node.as_table()) {
    out.kind = NodeKind::table;
    for (const auto& [key, value] : *table) {
      ConfigNode child = convert(value, file);
      // A value has no line of its own in some forms; its key has.
      if (child.line == 0) {
        child.line = static_cast<std::int64_t>(key.source().begin.line);
      }
      out.table.emplace(std::string(key.str()), std::move(child));
    }
  } else if (const toml::array* array = node.as_array()) {
    out.kind = NodeKind::array;
    for (const toml::node& item : *array) {
      out.items.push_back(convert(item, file));
    }
  } else if (const auto* text = node.as_string()) {
    out.kind = NodeKind::text;
    out.text = text->get();
  } else if (const auto* integer = node.as_integer()) {
    out.kind = NodeKind::integer;
    out.integer = integer->get();
  } else if (const auto* real = node.as_floating_point()) {
    out.kind = NodeKind::real;
    out.real = real->get();
  } else if (const auto* boolean = node.as_boolean()) {
    out.kind = NodeKind::boolean;
    out.boolean = boolean->get();
  } else {
    out.kind = NodeKind::other;
  }
  return out;
}

struct TreeOutcome {
  ConfigNode root;
  std::vector<ConfigError> errors;
};

TreeOutcome parse_tree(std::string_view text, const std::string& name) {
  TreeOutcome out;
  out.root.file = name;
  if (const std::int64_t line = NestingCheck(text).first_line(); line > 0) {
    out.errors.push_back({name, line, "",
                          fmt::format("this is no configuration: found nesting deeper than {} "
                                      "brackets or {} parts of a key, expected at most that; "
                                      "write it flat",
                                      kBracketsMax, kKeyPartsMax)});
    return out;
  }
  try {
    const toml::table table = toml::parse(text, std::string_view(name));
    out.root = convert(table, name);
    out.root.file = name;
  } catch (const toml::parse_error& error) {
    out.errors.push_back({name, static_cast<std::int64_t>(error.source().begin.line), "",
                          "this is no TOML: " + std::string(error.description())});
  } catch (const std::exception& error) {
    out.errors.push_back({name, 0, "", std::string("this is no TOML: ") + error.what()});
  }
  return out;
}

std::optional<std::string> read_file(const std::string& path, std::vector<ConfigError>& errors,
                                     std::int64_t bytes_max = kFileBytesMax) {
  Result<std::string> bytes = text::read_text_file(path, bytes_max);
  if (bytes.ok()) {
    return std::move(*bytes);
  }
  const std::string& message = bytes.error().message;
  const std::string place = path + ": ";
  errors.push_back(
      {path, 0, "", message.rfind(place, 0) == 0 ? message.substr(place.size()) : message});
  return std::nullopt;
}

/// The value behind "=": TOML, or else the text itself.
ConfigNode override_value(const std::string& text) {
  ConfigNode node;
  node.kind = NodeKind::text;
  node.text = text;
  node.file = "--set";
  if (NestingCheck(text).first_line() > 0) {
    return node;
  }
  try {
    const toml::table table =
        toml::parse(fmt::format("value = {}", text), std::string_view("--set"));
    if (table.size() == 1 && table.contains("value")) {
      ConfigNode value = convert(*table.get("value"), "--set");
      value.line = 0;
      if (value.kind != NodeKind::table && value.kind != NodeKind::other) {
        return value;
      }
    }
  } catch (const std::exception&) {
    return node; // No TOML value: the text itself.
  }
  return node;
}

/// Where the key of "KEY=VALUE" ends: at the first '=' outside of quotes.
std::size_t end_of_key(const std::string& text) {
  char quote_mark = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote_mark != 0) {
      if (c == '\\' && quote_mark == '"') ++i;
      if (c == quote_mark) quote_mark = 0;
    } else if (c == '"' || c == '\'') {
      quote_mark = c;
    } else if (c == '=') {
      return i;
    }
  }
  return std::string::npos;
}

/// The parts of a key as TOML reads it; empty when it is none.
std::vector<std::string> key_parts(const std::string& key) {
  std::vector<std::string> parts;
  const bool is_one_line = key.find_first_of("\r\n") == std::string::npos;
  if (!is_one_line || NestingCheck(key).first_line() > 0) return parts;
  try {
    const toml::table table = toml::parse(fmt::format("{} = 0", key), std::string_view("--set"));
    const toml::table* at = &table;
    while (at != nullptr && at->size() == 1) {
      parts.emplace_back(at->begin()->first.str());
      at = at->begin()->second.as_table();
    }
  } catch (const std::exception&) {
    parts.clear(); // No TOML key.
  }
  return parts;
}

std::optional<ConfigOverride> parse_override(const std::string& text,
                                             std::vector<ConfigError>& errors) {
  const std::size_t equals = end_of_key(text);
  ConfigOverride out;
  if (equals != std::string::npos) out.path = key_parts(text.substr(0, equals));
  const bool is_good =
      out.path.size() >= 2 && std::none_of(out.path.begin(), out.path.end(),
                                           [](const std::string& part) { return part.empty(); });
  if (!is_good) {
    errors.push_back({"--set", 0, "",
                      fmt::format("found {}, expected table.key=VALUE, as in "
                                  "limits.inflight_max=64 or rank.prefill.count=2",
                                  quote(text))});
    return std::nullopt;
  }
  out.value = override_value(text.substr(equals + 1));
  return out;
}

ConfigOutcome finish_system_config(TreeOutcome tree, const std::vector<std::string>& overrides) {
  ConfigOutcome failed;
  failed.errors = std::move(tree.errors);
  for (const std::string& text : overrides) {
    if (const auto parsed = parse_override(text, failed.errors)) {
      for (ConfigError& error : apply_override(tree.root, *parsed)) {
        failed.errors.push_back(std::move(error));
      }
    }
  }
  if (!failed.ok()) {
    return failed;
  }
  return bind_system_config(tree.root);
}

} // namespace

std::string ConfigError::text() const {
  std::string out = printable(file, kShownPathMax);
  if (line > 0) out.append(fmt::format(":{}", line));
  for (const std::string& part : {printable(key), printable(message, kMessageBytesMax)}) {
    if (!out.empty() && !part.empty()) out.append(": ");
    out.append(part);
  }
  return out;
}

Error KeyPlaces::placed(Error error) const {
  for (const auto& [key, place] : of) {
    if (error.message.rfind(key + ": ", 0) != 0) continue;
    error.message = printable(place, kShownPathMax) + ": " + error.message;
    break;
  }
  return error;
}

ConfigOutcome load_system_config(const std::string& path,
                                 const std::vector<std::string>& overrides) {
  if (path.empty()) {
    return finish_system_config({}, overrides);
  }
  ConfigOutcome failed;
  const std::optional<std::string> text = read_file(path, failed.errors);
  return text ? parse_system_config(*text, path, overrides) : failed;
}

ConfigOutcome parse_system_config(std::string_view text, const std::string& name,
                                  const std::vector<std::string>& overrides) {
  return finish_system_config(parse_tree(text, name), overrides);
}

PolicyOutcome load_policy_file(const std::string& path, const sched::PolicyRegistry& registry) {
  PolicyOutcome failed;
  const std::optional<std::string> text = read_file(path, failed.errors, kPolicyTextBytesMax);
  return text ? parse_policy_file(*text, path, registry) : failed;
}

PolicyOutcome parse_policy_file(std::string_view text, const std::string& name,
                                const sched::PolicyRegistry& registry) {
  if (static_cast<std::int64_t>(text.size()) > kPolicyTextBytesMax) {
    return {{},
            {{name, 0, "",
              fmt::format("found {} bytes, expected at most {} of a policy file", text.size(),
                          kPolicyTextBytesMax)}}};
  }
  TreeOutcome tree = parse_tree(text, name);
  if (!tree.errors.empty()) {
    return {{}, std::move(tree.errors)};
  }
  PolicyOutcome outcome = bind_policy_set(tree.root, registry);
  if (outcome.ok()) {
    outcome.set.text = text;
    outcome.set.file = name;
  }
  return outcome;
}

bool is_policy_file(const std::string& path, const sched::PolicyRegistry& registry) {
  std::vector<ConfigError> errors;
  const std::optional<std::string> text = read_file(path, errors);
  if (!text) return false;
  const TreeOutcome tree = parse_tree(*text, path);
  return tree.errors.empty() && looks_like_policy_file(tree.root, registry);
}

SimOutcome load_sim_file(const std::string& path, const sched::PolicyRegistry& registry) {
  SimOutcome failed;
  const std::optional<std::string> text = read_file(path, failed.errors);
  return text ? parse_sim_file(*text, path, registry) : failed;
}

SimOutcome parse_sim_file(std::string_view text, const std::string& name,
                          const sched::PolicyRegistry& registry) {
  TreeOutcome tree = parse_tree(text, name);
  if (!tree.errors.empty()) {
    return {{}, std::move(tree.errors)};
  }
  return bind_scenario(tree.root, registry);
}

std::string error_lines(const std::vector<ConfigError>& errors) {
  constexpr std::size_t kLinesMax = 100; // More are no help to anybody.
  std::string out;
  for (std::size_t i = 0; i < std::min(errors.size(), kLinesMax); ++i) {
    if (i > 0) out += '\n';
    out += errors[i].text();
  }
  if (errors.size() > kLinesMax) {
    out += fmt::format("\nand {} more like these; correct them first", errors.size() - kLinesMax);
  }
  return out;
}

} // namespace troupe::app
