#include "actors/app/config_bind.hpp"

#include "actors/app/config_keys.hpp"
#include "schedulers/core/options.hpp"
#include "schedulers/core/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <initializer_list>

namespace troupe::app {

namespace {

struct Unit {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array<Unit, 9> kUnits = {{{"TiB", 1LL << 40},
                                         {"GiB", 1LL << 30},
                                         {"MiB", 1LL << 20},
                                         {"KiB", 1LL << 10},
                                         {"TB", 1'000'000'000'000},
                                         {"GB", 1'000'000'000},
                                         {"MB", 1'000'000},
                                         {"KB", 1'000},
                                         {"B", 1}}};

/// Reads the keys of one table after another; the visitor of config_keys.hpp.
class Binder {
public:
  Binder(const ConfigNode& root, ConfigOutcome& outcome)
      : root_(root), errors_(outcome.errors), given_(outcome.given), places_(outcome.places.of) {}

  /// Ends the table before and goes on with [name].
  void table(const char* name) {
    leave();
    tables_.insert(name);
    const auto at = root_.table.find(name);
    const ConfigNode* node = at == root_.table.end() ? nullptr : &at->second;
    if (node != nullptr && node->kind != NodeKind::table) {
      enter(nullptr, "");
      fail(*node, name, "found " + node->shown() + ", expected a table [" + name + "]");
      node = nullptr;
    }
    enter(node, std::string(name) + ".");
  }

  /// After the last table: reports those that do not exist. `also` exists.
  void end(const std::string& also) {
    leave();
    tables_.insert(also);
    enter(nullptr, "");
    for (const auto& [key, node] : root_.table) {
      if (tables_.contains(key)) {
        continue;
      }
      const bool is_table = node.kind == NodeKind::table || node.kind == NodeKind::array;
      fail(node, key,
           (is_table ? "unknown table" : "unknown key outside of all tables") +
               name_hint(key, tables_));
    }
  }

  /// The table that the next keys are of; null reads as an empty one.
  void enter(const ConfigNode* table, std::string prefix) {
    table_ = table;
    prefix_ = std::move(prefix);
    known_.clear();
  }

  /// Reports keys of the current table that nobody asked for. `also` is a known one.
  void leave(const std::string& also = {}) {
    if (table_ == nullptr) {
      return;
    }
    if (!also.empty()) {
      known_.insert(also);
    }
    for (const auto& [key, node] : table_->table) {
      if (!known_.contains(key)) {
        fail(node, key, "unknown key" + name_hint(key, known_));
      }
    }
    table_ = nullptr;
  }

  void text(const char* key, std::string& value) {
    if (const ConfigNode* node = find(key, NodeKind::text, "a text")) {
      value = node->text;
    }
  }

  void choice(const char* key, std::string& value, std::initializer_list<const char*> allowed) {
    const ConfigNode* node = find(key);
    if (node == nullptr) {
      return;
    }
    std::string expected;
    for (const char* word : allowed) {
      if (node->kind == NodeKind::text && node->text == word) {
        value = node->text;
        return;
      }
      expected += (expected.empty() ? "" : ", ") + quote(word);
    }
    std::string message = "found " + node->shown() + ", expected one of " + expected;
    if (node->kind == NodeKind::text && node->text.rfind("cuda", 0) == 0) {
      message += "; this build has no CUDA";
    }
    fail(*node, key, message);
  }

  template <class Enum, std::size_t N>
  void names(const char* key, Enum& value,
             const std::array<std::pair<std::string_view, Enum>, N>& all) {
    const ConfigNode* node = find(key);
    if (node == nullptr) {
      return;
    }
    std::string expected;
    for (const auto& [name, entry] : all) {
      if (node->kind == NodeKind::text && node->text == name) {
        value = entry;
        return;
      }
      expected += (expected.empty() ? "" : ", ") + quote(name);
    }
    fail(*node, key, "found " + node->shown() + ", expected one of " + expected);
  }

  void path(const char* key, std::string& value) {
    const ConfigNode* node = find(key, NodeKind::text, "a path");
    if (node == nullptr) {
      return;
    }
    if (node->text.empty()) {
      value.clear();
      return;
    }
    const std::filesystem::path base = node->file == "--set"
                                           ? std::filesystem::path(".")
                                           : std::filesystem::path(node->file).parent_path();
    std::error_code error;
    const auto full = std::filesystem::absolute(base / node->text, error);
    value = error ? node->text : full.lexically_normal().string();
  }

  void boolean(const char* key, bool& value) {
    if (const ConfigNode* node = find(key, NodeKind::boolean, "true or false")) {
      value = node->boolean;
    }
  }

  void integer(const char* key, std::int64_t& value, IntegerRange range) {
    const ConfigNode* node = find(key);
    if (node == nullptr) {
      return;
    }
    const bool is_good = node->kind == NodeKind::integer && node->integer >= range.lowest &&
                         node->integer <= range.highest;
    if (is_good) {
      value = node->integer;
    } else {
      fail(*node, key, node->wrong_integer(range.lowest, range.highest));
    }
  }

  void size(const char* key, std::int64_t& value, IntegerRange range) {
    const ConfigNode* node = find(key);
    if (node == nullptr) {
      return;
    }
    std::int64_t bytes = node->integer;
    bool is_good = node->kind == NodeKind::integer ||
                   (node->kind == NodeKind::text && parse_size(node->text, bytes));
    is_good = is_good && bytes >= range.lowest && bytes <= range.highest;
    if (is_good) {
      value = bytes;
    } else {
      fail(*node, key,
           fmt::format("found {}, expected a size from {} to {}, as bytes or with a unit (B KiB "
                       "MiB GiB TiB, KB MB GB TB), as in \"512MiB\"",
                       node->shown(), size_text(range.lowest), size_text(range.highest)));
    }
  }

  void real(const char* key, double& value, RealRange range) {
    if (const ConfigNode* node = find(key)) {
      read_real(*node, key, value, range, "");
    }
  }

  void real_or_model(const char* key, std::optional<double>& value, RealRange range) {
    const ConfigNode* node = find(key);
    if (node == nullptr) {
      return;
    }
    if (node->kind == NodeKind::text && node->text == "model") {
      value.reset();
      return;
    }
    double number = 0.0;
    if (read_real(*node, key, number, range, " or \"model\" for what the checkpoint says")) {
      value = number;
    }
  }

  void fail(const ConfigNode& node, const std::string& key, std::string message) {
    errors_.push_back({node.file, node.line, prefix_ + key, std::move(message)});
  }

private:
  const ConfigNode* find(const char* key) {
    known_.insert(key);
    if (table_ == nullptr) {
      return nullptr;
    }
    const auto at = table_->table.find(key);
    if (at == table_->table.end()) {
      return nullptr;
    }
    given_.insert(prefix_ + key);
    places_.insert_or_assign(prefix_ + key, at->second.place());
    return &at->second;
  }

  const ConfigNode* find(const char* key, NodeKind kind, const char* expected) {
    const ConfigNode* node = find(key);
    if (node == nullptr || node->kind == kind) {
      return node;
    }
    fail(*node, key, "found " + node->shown() + ", expected " + expected);
    return nullptr;
  }

  bool read_real(const ConfigNode& node, const char* key, double& value, RealRange range,
                 const char* or_else) {
    const bool is_number = node.kind == NodeKind::integer || node.kind == NodeKind::real;
    const double number =
        node.kind == NodeKind::integer ? static_cast<double>(node.integer) : node.real;
    // Written so that not-a-number fails.
    if (is_number && number >= range.lowest && number <= range.highest) {
      value = number;
      return true;
    }
    fail(node, key,
         fmt::format("found {}, expected a number from {} to {}{}", node.shown(), range.lowest,
                     range.highest, or_else));
    return false;
  }

  const ConfigNode& root_;
  std::vector<ConfigError>& errors_;
  std::set<std::string>& given_;
  std::map<std::string, std::string>& places_;
  std::set<std::string> tables_;
  const ConfigNode* table_ = nullptr;
  std::string prefix_;
  std::set<std::string> known_;
};

// -- ranks --------------------------------------------------------------------------------------

/// The name that a [[rank]] entry goes by.
std::string group_name(const ConfigNode& node) {
  for (const char* key : {"name", "role"}) {
    const auto at = node.table.find(key);
    if (at != node.table.end() && at->second.kind == NodeKind::text) {
      return at->second.text;
    }
  }
  return "both";
}

bool is_group_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
  });
}

/// Part of the default groups, which only an override needs written out.
ConfigNode text_node(const std::string& text) {
  ConfigNode node;
  node.file = "--set";
  node.kind = NodeKind::text;
  node.text = text;
  return node;
}

/// The compiled-in groups as the file would have them.
std::vector<ConfigNode> default_groups() {
  std::vector<ConfigNode> groups;
  for (const RankGroupConfig& group : SystemConfig().ranks) {
    ConfigNode node;
    node.file = "--set";
    node.table.emplace("name", text_node(group.name));
    node.table.emplace("role", text_node(sched::role_name(group.role)));
    groups.push_back(std::move(node));
  }
  return groups;
}

bool has_no_load(const CostModelConfig& cost) {
  return cost.model.sequence_ps == 0 && cost.model.context_token_ps == 0;
}

void check_load(const CostModelConfig& cost, const ConfigNode& at, const std::string& prefix,
                std::vector<ConfigError>& errors) {
  if (!has_no_load(cost)) return;
  errors.push_back({at.file, at.line, prefix,
                    "found sequence = context_token = 0, expected one of them above 0: a balancer "
                    "would see no load; leave one at its default"});
}

/// What one [[rank]] entry says beside its own keys: its cost model on top of that of all.
void bind_group_cost(const ConfigNode& node, const std::string& prefix, Binder& binder,
                     ConfigOutcome& outcome, RankGroupConfig& group) {
  group.cost_model = outcome.config.cost_model;
  const auto cost = node.table.find("cost_model");
  if (cost == node.table.end()) return;
  if (cost->second.kind != NodeKind::table) {
    outcome.errors.push_back({cost->second.file, cost->second.line, prefix + "cost_model",
                              "found " + cost->second.shown() + ", expected [rank.cost_model]"});
    return;
  }
  const bool is_inherited = has_no_load(group.cost_model);
  binder.enter(&cost->second, prefix + "cost_model.");
  visit_cost_model(group.cost_model, binder);
  binder.leave();
  if (!is_inherited) {
    check_load(group.cost_model, cost->second, prefix + "cost_model", outcome.errors);
  }
}

/// The name of a group, when it has one that other messages can use.
void check_group_name(const ConfigNode& node, const std::string& name, ConfigOutcome& outcome) {
  const auto own = node.table.find("name");
  const ConfigNode& place = own == node.table.end() ? node : own->second;
  if (!is_group_name(name)) {
    outcome.errors.push_back(
        {place.file, place.line, "rank.name",
         "found " + quote(name) + ", expected 1 to 64 letters, digits, - or _"});
    return;
  }
  const auto is_same = [&](const RankGroupConfig& other) { return other.name == name; };
  if (std::any_of(outcome.config.ranks.begin(), outcome.config.ranks.end(), is_same)) {
    outcome.errors.push_back({place.file, place.line, "rank.name",
                              "found a second group " + quote(name) +
                                  ", expected distinct names; give one of them another name"});
  }
}

void bind_group(const ConfigNode& node, Binder& binder, ConfigOutcome& outcome) {
  RankGroupConfig group;
  const std::string prefix = "rank." + group_name(node) + ".";
  if (node.kind != NodeKind::table) {
    outcome.errors.push_back(
        {node.file, node.line, "rank", "found " + node.shown() + ", expected a table [[rank]]"});
    return;
  }
  const std::size_t before = outcome.errors.size();
  binder.enter(&node, prefix);
  visit_rank(group, binder);
  binder.leave("cost_model");
  // A group whose role or name is wrong has no name to compare.
  if (outcome.errors.size() == before) {
    if (group.name.empty()) group.name = sched::role_name(group.role);
    check_group_name(node, group.name, outcome);
  }
  bind_group_cost(node, prefix, binder, outcome, group);
  outcome.config.ranks.push_back(std::move(group));
}

/// Ranks hand sequences over to each other: their KV must have one form.
///
/// @param list  [[rank]] entries, one for each group
void check_devices(const ConfigNode& list, ConfigOutcome& outcome) {
  const auto kind = [](const std::string& device) { return device.substr(0, device.find(':')); };
  const std::vector<RankGroupConfig>& ranks = outcome.config.ranks;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (kind(ranks[i].device) == kind(ranks.front().device)) continue;
    const ConfigNode& group = list.items[i];
    const auto own = group.table.find("device");
    const ConfigNode& place = own == group.table.end() ? group : own->second;
    outcome.errors.push_back(
        {place.file, place.line, "rank." + ranks[i].name + ".device",
         fmt::format("found \"{}\" beside \"{}\" of {}, expected one kind of device for all ranks: "
                     "they hand sequences over to each other; give all the same",
                     ranks[i].device, ranks.front().device, ranks.front().name)});
    return;
  }
}

/// Some rank must prefill and some rank must decode.
void check_roles(const ConfigNode& list, ConfigOutcome& outcome) {
  bool prefill = false;
  bool decode = false;
  std::string found;
  for (const RankGroupConfig& group : outcome.config.ranks) {
    prefill = prefill || sched::prefills(group.role);
    decode = decode || sched::decodes(group.role);
    if (found.empty()) found = sched::role_name(group.role);
  }
  if (prefill && decode) return;
  const ConfigNode* place = &list.items.front();
  for (const ConfigNode& item : list.items) {
    const auto role = item.table.find("role");
    if (role != item.table.end() && role->second.file == "--set") place = &role->second;
  }
  const char* lacks = prefill ? "decode" : "prefill";
  outcome.errors.push_back(
      {place->file, place->line, "rank.role",
       fmt::format("found only ranks of role \"{}\", expected one that can {} too: no rank can {}; "
                   "add a [[rank]] with role = \"{}\" or \"both\"",
                   found, lacks, lacks, lacks)});
}

void bind_groups(const ConfigNode& root, Binder& binder, ConfigOutcome& outcome) {
  std::vector<ConfigNode> groups;
  const auto at = root.table.find("rank");
  if (at == root.table.end()) {
    for (RankGroupConfig& group : outcome.config.ranks) {
      group.cost_model = outcome.config.cost_model;
    }
    return;
  }
  if (at->second.kind != NodeKind::array || at->second.items.empty()) {
    outcome.errors.push_back(
        {at->second.file, at->second.line, "rank",
         "found " + at->second.shown() + ", expected one or more tables [[rank]]"});
    return;
  }
  outcome.config.ranks.clear();
  const std::size_t before = outcome.errors.size();
  for (const ConfigNode& node : at->second.items) {
    bind_group(node, binder, outcome);
  }
  // What is wrong with a group stands for what would follow from it.
  if (outcome.errors.size() != before) return;
  check_devices(at->second, outcome);
  check_roles(at->second, outcome);
}

} // namespace

std::string ConfigNode::place() const { return line > 0 ? fmt::format("{}:{}", file, line) : file; }

std::string ConfigNode::shown() const {
  switch (kind) {
  case NodeKind::boolean:
    return boolean ? "true" : "false";
  case NodeKind::integer:
    return fmt::format("the integer {}", integer);
  case NodeKind::real:
    return "the number " + real_text(real);
  case NodeKind::text:
    return "the text " + quote(text);
  case NodeKind::table:
    return "a table";
  case NodeKind::array:
    return "an array";
  case NodeKind::other:
    return "a date or time";
  }
  return "a value";
}

std::string ConfigNode::wrong_integer(std::int64_t lowest, std::int64_t highest) const {
  const std::string message =
      fmt::format("found {}, expected an integer from {} to {}", shown(), lowest, highest);
  const bool is_whole = kind == NodeKind::real && std::floor(real) == real &&
                        real >= static_cast<double>(lowest) && real <= static_cast<double>(highest);
  return is_whole ? fmt::format("{}; write it without a point, as in {:.0f}", message, real)
                  : message;
}

std::string name_hint(const std::string& word, const std::set<std::string>& known) {
  constexpr std::size_t kNamesMax = 40; // Names of groups are the user's, and may be many.
  const std::string near = nearest_name(word, known);
  if (!near.empty()) return "; did you mean " + quote(near) + "?";
  std::string out = "; valid here:";
  std::size_t shown = 0;
  for (const std::string& name : known) {
    if (++shown > kNamesMax) return out + fmt::format(" and {} more", known.size() - kNamesMax);
    out += " " + printable(name, 64);
  }
  return out;
}

std::vector<ConfigError> apply_override(ConfigNode& root, const ConfigOverride& override) {
  const std::vector<std::string>& path = override.path;
  ConfigNode* at = &root;
  std::ptrdiff_t used = 0;
  const auto refuse = [&](const std::string& key, std::string message) {
    return std::vector<ConfigError>{{"--set", 0, key, std::move(message)}};
  };
  if (path[0] == "rank") {
    ConfigNode& ranks = root.table[path[0]];
    if (ranks.kind == NodeKind::table && ranks.table.empty()) {
      ranks.kind = NodeKind::array;
      ranks.items = default_groups();
    }
    std::set<std::string> names;
    ConfigNode* group = nullptr;
    for (ConfigNode& item : ranks.items) {
      names.insert(group_name(item));
      if (group_name(item) == path[1] && group == nullptr) {
        group = &item;
      }
    }
    if (group == nullptr) {
      return refuse("rank." + path[1],
                    "there is no group of ranks with this name" + name_hint(path[1], names));
    }
    if (path.size() < 3) {
      return refuse("rank." + path[1], "expected rank.NAME.key=VALUE");
    }
    at = group;
    used = 2;
  }
  for (; used + 1 < std::ssize(path); ++used) {
    at = &at->table[path.at(static_cast<std::size_t>(used))];
    if (at->file.empty()) { // Made by this override: a message about it names its place.
      at->file = "--set";
    }
    if (at->kind != NodeKind::table) {
      return refuse(fmt::format("{}", fmt::join(path.begin(), path.begin() + used + 1, ".")),
                    "found " + at->shown() + ", expected a table with the key " +
                        quote(path.at(static_cast<std::size_t>(used) + 1)));
    }
  }
  at->table[path.back()] = override.value;
  return {};
}

ConfigOutcome bind_system_config(const ConfigNode& root) {
  ConfigOutcome outcome;
  Binder binder(root, outcome);
  visit_tables(outcome.config, binder);
  binder.end("rank");
  const auto cost = root.table.find("cost_model");
  check_load(outcome.config.cost_model, cost == root.table.end() ? root : cost->second,
             "cost_model", outcome.errors);
  bind_groups(root, binder, outcome);
  if (!outcome.ok()) {
    outcome.config = SystemConfig();
  }
  std::stable_sort(outcome.errors.begin(), outcome.errors.end(),
                   [](const ConfigError& a, const ConfigError& b) { return a.line < b.line; });
  return outcome;
}

bool parse_size(const std::string& text, std::int64_t& bytes) {
  std::int64_t number = 0;
  const auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc{} || number < 0) {
    return false;
  }
  std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  while (!unit.empty() && unit.front() == ' ') {
    unit.remove_prefix(1);
  }
  for (const Unit& known : kUnits) {
    if (unit == known.name || (unit.empty() && known.bytes == 1)) {
      return !__builtin_mul_overflow(number, known.bytes, &bytes);
    }
  }
  return false;
}

std::string size_text(std::int64_t bytes) {
  for (const Unit& unit : kUnits) {
    const bool is_binary = unit.name.size() == 3;
    if (is_binary && bytes >= unit.bytes && bytes % unit.bytes == 0) {
      return fmt::format("{}{}", bytes / unit.bytes, unit.name);
    }
  }
  return fmt::format("{}B", bytes);
}

} // namespace troupe::app
