#include "actors/app/config_loader.hpp"

#include "actors/app/config_bind.hpp"
#include "actors/app/config_sim.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

namespace troupe::app {

namespace {

constexpr std::size_t kFileBytesMax = 4 << 20;

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

std::optional<std::string> read_file(const std::string& path, std::vector<ConfigError>& errors) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    errors.push_back({path, 0, "", std::string("cannot open it: ") + std::strerror(errno)});
    return std::nullopt;
  }
  std::string text(kFileBytesMax + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  const bool is_failed = std::ferror(file) != 0;
  const int reason = errno;
  std::fclose(file);
  if (is_failed) {
    errors.push_back({path, 0, "", std::string("cannot read it: ") + std::strerror(reason)});
    return std::nullopt;
  }
  if (text.size() > kFileBytesMax) {
    errors.push_back({path, 0, "", "it is larger than 4 MiB; this is hardly a configuration"});
    return std::nullopt;
  }
  return text;
}

/// The value behind "=": TOML, or else the text itself.
ConfigNode override_value(const std::string& text) {
  ConfigNode node;
  try {
    const toml::table table =
        toml::parse(fmt::format("value = {}", text), std::string_view("--set"));
    if (table.size() == 1 && table.contains("value")) {
      node = convert(*table.get("value"), "");
    }
  } catch (const std::exception&) {
    node.kind = NodeKind::text;
    node.text = text;
  }
  if (node.kind == NodeKind::table || node.kind == NodeKind::other) {
    node = {};
    node.kind = NodeKind::text;
    node.text = text;
  }
  node.file = "--set";
  node.line = 0;
  return node;
}

std::optional<ConfigOverride> parse_override(const std::string& text,
                                             std::vector<ConfigError>& errors) {
  const std::size_t equals = text.find('=');
  ConfigOverride out;
  std::string word;
  for (const char c : text.substr(0, equals)) {
    if (c == '.') {
      out.path.push_back(std::move(word));
      word.clear();
    } else if (c != ' ') {
      word += c;
    }
  }
  out.path.push_back(std::move(word));
  bool is_good = equals != std::string::npos && out.path.size() >= 2;
  for (const std::string& part : out.path) {
    is_good = is_good && !part.empty();
  }
  if (!is_good) {
    errors.push_back({"--set", 0, "",
                      fmt::format("found \"{}\", expected table.key=VALUE, as in "
                                  "limits.inflight_max=64 or rank.prefill.count=2",
                                  text)});
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
  std::string out;
  for (const std::string& part :
       {line > 0 ? fmt::format("{}:{}", file, line) : file, key, message}) {
    if (part.empty()) {
      continue;
    }
    if (!out.empty()) {
      out.append(": ");
    }
    out.append(part);
  }
  return out;
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
  const std::optional<std::string> text = read_file(path, failed.errors);
  return text ? parse_policy_file(*text, path, registry) : failed;
}

PolicyOutcome parse_policy_file(std::string_view text, const std::string& name,
                                const sched::PolicyRegistry& registry) {
  TreeOutcome tree = parse_tree(text, name);
  if (!tree.errors.empty()) {
    return {{}, std::move(tree.errors)};
  }
  return bind_policy_set(tree.root, registry);
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
  std::string out;
  for (const ConfigError& error : errors) {
    if (!out.empty()) {
      out += '\n';
    }
    out += error.text();
  }
  return out;
}

} // namespace troupe::app
