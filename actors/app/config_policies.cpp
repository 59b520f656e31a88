// Policy file → PolicySet. Which kinds, names and options exist is the registry's knowledge.

#include "actors/app/config_bind.hpp"
#include "actors/app/response_body.hpp"

#include <charconv>

namespace troupe::app {

namespace {

void flatten(const ConfigNode& table, const std::string& kind, const std::string& prefix,
             OptionTable& options, std::vector<ConfigError>& errors);

/// One option. A list becomes numbered keys: filters = ["alive"] is "filters[0]"; below a table
/// there are no lists, because its keys may be names that the user chose.
void flatten_value(const ConfigNode& node, const std::string& kind, const std::string& name,
                   OptionTable& options, std::vector<ConfigError>& errors) {
  const std::string where = node.file + ":" + std::to_string(node.line);
  switch (node.kind) {
  case NodeKind::boolean:
    options.set(name, {node.boolean, where});
    break;
  case NodeKind::integer:
    options.set(name, {node.integer, where});
    break;
  case NodeKind::real:
    options.set(name, {node.real, where});
    break;
  case NodeKind::text:
    if (name != "policy") {
      options.set(name, {node.text, where});
    }
    break;
  case NodeKind::table:
    flatten(node, kind, name + ".", options, errors);
    break;
  case NodeKind::array:
    if (name.find('.') != std::string::npos) {
      errors.push_back({node.file, node.line, kind + "." + name,
                        "found " + node.shown() + ", expected true, false, a number or a text"});
      break;
    }
    if (node.items.empty()) {
      errors.push_back({node.file, node.line, kind + "." + name,
                        "found an empty list; leave it out for the default"});
    }
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      flatten_value(node.items[i], kind, name + "[" + std::to_string(i) + "]", options, errors);
    }
    break;
  default:
    errors.push_back({node.file, node.line, kind + "." + name,
                      "found " + node.shown() + ", expected true, false, a number or a text"});
  }
}

/// Options below a kind become flat keys: [queue.wait_bound] max_us is "wait_bound.max_us".
void flatten(const ConfigNode& table, const std::string& kind, const std::string& prefix,
             OptionTable& options, std::vector<ConfigError>& errors) {
  for (const auto& [key, node] : table.table) {
    flatten_value(node, kind, prefix + key, options, errors);
  }
}

/// "FILE:LINE: KEY: text" of an option table as its parts.
ConfigError split_message(const std::string& message, const ConfigNode& kind_node,
                          const std::string& kind) {
  ConfigError error{kind_node.file, kind_node.line, kind, message};
  const std::string place = kind_node.file + ":";
  if (message.rfind(place, 0) != 0) {
    if (message.rfind(kind + ".", 0) == 0 || message.rfind(kind + ":", 0) == 0) {
      const std::size_t colon = message.find(": ");
      error.key = message.substr(0, colon);
      error.message = message.substr(colon + 2);
    }
    return error;
  }
  const char* begin = message.data() + place.size();
  const char* end = message.data() + message.size();
  const auto [rest, failed] = std::from_chars(begin, end, error.line);
  const std::size_t key_at = static_cast<std::size_t>(rest - message.data()) + 2;
  const std::size_t key_end = message.find(": ", key_at);
  if (failed != std::errc{} || key_end == std::string::npos) {
    return error;
  }
  error.key = message.substr(key_at, key_end - key_at);
  error.message = message.substr(key_end + 2);
  return error;
}

void bind_kind(const std::string& kind, const ConfigNode& node,
               const sched::PolicyRegistry& registry, PolicyOutcome& outcome) {
  sched::PolicySpec spec{registry.default_name(kind), OptionTable(kind)};
  const ConfigNode* policy = nullptr;
  if (const auto at = node.table.find("policy"); at != node.table.end()) {
    policy = &at->second;
  }
  if (policy != nullptr && policy->kind != NodeKind::text) {
    outcome.errors.push_back({policy->file, policy->line, kind + ".policy",
                              "found " + policy->shown() + ", expected the name of a policy" +
                                  name_hint("", registry.names(kind))});
    return;
  }
  if (policy != nullptr) {
    spec.policy = policy->text;
  }
  if (!registry.names(kind).contains(spec.policy)) {
    outcome.errors.push_back({policy->file, policy->line, kind + ".policy",
                              "found " + policy->shown() + ", expected a policy of this kind" +
                                  name_hint(spec.policy, registry.names(kind))});
    return;
  }
  const std::size_t errors_before = outcome.errors.size();
  flatten(node, kind, "", spec.options, outcome.errors);
  if (outcome.errors.size() != errors_before) {
    return;
  }
  sched::PolicySet alone;
  alone.kinds.emplace(kind, spec);
  const auto built = registry.build(kind, alone);
  if (!built) {
    outcome.errors.push_back(split_message(built.error().message, node, kind));
    return;
  }
  outcome.set.kinds.emplace(kind, std::move(spec));
}

} // namespace

PolicyOutcome bind_policy_set(const ConfigNode& root, const sched::PolicyRegistry& registry) {
  PolicyOutcome outcome;
  const auto name = root.table.find("name");
  if (name == root.table.end()) {
    outcome.errors.push_back({root.file, 0, "name",
                              "it is missing; a policy file begins with name = \"...\", so that an "
                              "emptied file is never applied"});
  } else if (name->second.kind != NodeKind::text || name->second.text.empty()) {
    outcome.errors.push_back({root.file, name->second.line, "name",
                              "found " + name->second.shown() + ", expected a text, not empty"});
  } else {
    outcome.set.name = name->second.text;
  }
  std::set<std::string> known = registry.kinds();
  known.insert("name");
  for (const auto& [key, node] : root.table) {
    if (key == "name") {
      continue;
    }
    if (!known.contains(key)) {
      outcome.errors.push_back(
          {node.file, node.line, key, "unknown kind of policy" + name_hint(key, known)});
    } else if (node.kind != NodeKind::table) {
      outcome.errors.push_back({node.file, node.line, key,
                                "found " + node.shown() + ", expected a table [" + key + "]"});
    } else {
      bind_kind(key, node, registry, outcome);
    }
  }
  if (!outcome.ok()) {
    outcome.set = {};
  }
  return outcome;
}

} // namespace troupe::app
