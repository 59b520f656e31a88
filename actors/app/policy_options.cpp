#include "actors/app/policy_options.hpp"

#include <charconv>

namespace troupe::app {

namespace {

/// One table on its way into options.
class Flattener {
public:
  Flattener(const std::string& path, OptionTable& options, std::vector<ConfigError>& errors)
      : path_(path), options_(options), errors_(errors) {}

  void table(const ConfigNode& node, const std::string& prefix) {
    for (const auto& [key, value] : node.table)
      add(value, prefix + key);
  }

private:
  void add(const ConfigNode& node, const std::string& name) {
    const std::string where = node.file + ":" + std::to_string(node.line);
    switch (node.kind) {
    case NodeKind::boolean:
      return options_.set(name, {node.boolean, where});
    case NodeKind::integer:
      return options_.set(name, {node.integer, where});
    case NodeKind::real:
      return options_.set(name, {node.real, where});
    case NodeKind::text:
      return options_.set(name, {node.text, where});
    case NodeKind::table:
      // Options have no place for an empty one, and what asked for it would not see it.
      if (node.table.empty()) {
        return fail(node, name, "found an empty table; give it keys, or leave it out");
      }
      return table(node, name + ".");
    case NodeKind::array:
      return list(node, name);
    case NodeKind::other:
      fail(node, name, "found " + node.shown() + ", expected true, false, a number or a text");
    }
  }

  void list(const ConfigNode& node, const std::string& name) {
    if (name.find('.') != std::string::npos) {
      return fail(node, name,
                  "found " + node.shown() + ", expected true, false, a number or a text");
    }
    if (node.items.empty()) fail(node, name, "found an empty list; leave it out for the default");
    for (std::size_t i = 0; i < node.items.size(); ++i)
      add(node.items[i], name + "[" + std::to_string(i) + "]");
  }

  void fail(const ConfigNode& node, const std::string& name, std::string message) {
    errors_.push_back({node.file, node.line, path_ + "." + name, std::move(message)});
  }

  const std::string& path_;
  OptionTable& options_;
  std::vector<ConfigError>& errors_;
};

/// Takes "LINE: " from the front of `text`; 0 when it does not begin so.
std::int64_t take_line(std::string& text) {
  std::int64_t line = 0;
  const auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), line);
  const auto digits = static_cast<std::size_t>(rest - text.data());
  if (failed != std::errc{} || text.compare(digits, 2, ": ") != 0) return 0;
  text.erase(0, digits + 2);
  return line;
}

} // namespace

bool read_options(const ConfigNode& table, const std::string& path, OptionTable& options,
                  std::vector<ConfigError>& errors) {
  const std::size_t before = errors.size();
  Flattener(path, options, errors).table(table, "");
  return errors.size() == before;
}

ConfigError option_error(const std::string& message, const ConfigNode& node,
                         const std::string& name, const std::string& path) {
  ConfigError error{node.file, node.line, path, message};
  const std::string place = node.file + ":";
  if (message.rfind(place, 0) == 0) {
    std::string rest = message.substr(place.size());
    if (const std::int64_t line = take_line(rest); line > 0) {
      error.line = line;
      error.message = std::move(rest);
    }
  }
  const std::size_t colon = error.message.find(": ");
  const bool has_key =
      error.message.rfind(name + ".", 0) == 0 || error.message.rfind(name + ":", 0) == 0;
  if (has_key && colon != std::string::npos) {
    error.key = path + error.message.substr(name.size(), colon - name.size());
    error.message = error.message.substr(colon + 2);
  }
  return error;
}

} // namespace troupe::app
