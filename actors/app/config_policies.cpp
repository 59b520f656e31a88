// Policy file → PolicySet. Which kinds, names and options exist is the registry's knowledge.

#include "actors/app/config_bind.hpp"
#include "actors/app/policy_options.hpp"
#include "actors/app/policy_tables.hpp"
#include "schedulers/core/printable.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::app {

namespace {

/// Tables of a policy file that are no kinds.
const std::set<std::string> kOtherTables = {"canary", "library", "probation", "shadow"};

/// Reads one file into a set; errors of all tables are collected.
class SetReader {
public:
  SetReader(const ConfigNode& root, const sched::PolicyRegistry& registry, PolicyOutcome& outcome)
      : root_(root), registry_(registry), outcome_(outcome), known_(registry.kinds()) {}

  void read() {
    read_name();
    if (const ConfigNode* libraries = find("library")) {
      const std::size_t before = outcome_.errors.size();
      outcome_.set.libraries = read_libraries(*libraries, registry_, outcome_.errors);
      libraries_fail_ = outcome_.errors.size() != before;
    }
    if (const ConfigNode* probation = find("probation")) {
      outcome_.set.probation = read_probation(*probation, outcome_.errors);
    }
    read_shadow();
    read_canary();
    for (const auto& [key, node] : root_.table) {
      if (key == "name" || kOtherTables.contains(key)) continue;
      read_kind(key, node, "", outcome_.set.kinds);
    }
  }

private:
  const ConfigNode* find(const char* key) const {
    const auto at = root_.table.find(key);
    return at == root_.table.end() ? nullptr : &at->second;
  }

  void fail(const ConfigNode& node, const std::string& key, std::string message) {
    outcome_.errors.push_back({node.file, node.line, key, std::move(message)});
  }

  void read_name() {
    const ConfigNode* name = find("name");
    if (name == nullptr) {
      outcome_.errors.push_back(
          {root_.file, 0, "name",
           "it is missing; a policy file begins with name = \"...\", so that an emptied file is "
           "never applied"});
    } else if (name->kind != NodeKind::text || name->text.empty()) {
      fail(*name, "name", "found " + name->shown() + ", expected a text, not empty");
    } else if (name->text.size() > kShownBytesMax) { // Logs, ledgers and replies repeat it.
      fail(*name, "name",
           "found " + name->shown() +
               fmt::format(", expected at most {} bytes; give the set a shorter name",
                           kShownBytesMax));
    } else {
      outcome_.set.name = name->text;
    }
  }

  void read_shadow() {
    const ConfigNode* shadow = find("shadow");
    if (shadow == nullptr) return;
    if (shadow->kind != NodeKind::table) {
      return fail(*shadow, "shadow", "found " + shadow->shown() + ", expected [shadow.KIND]");
    }
    for (const auto& [kind, node] : shadow->table)
      read_kind(kind, node, "shadow.", outcome_.set.shadow);
  }

  void read_canary() {
    const ConfigNode* canary = find("canary");
    if (canary == nullptr) return;
    if (canary->kind != NodeKind::table) {
      return fail(*canary, "canary",
                  "found " + canary->shown() +
                      ", expected [canary] with a share and [canary.KIND]");
    }
    outcome_.set.canary_permille = read_canary_share(*canary, outcome_.errors);
    const std::size_t tables = canary->table.size() - canary->table.count("share");
    if (tables == 0) {
      fail(*canary, "canary",
           "found a share and no kind, expected a table [canary.KIND] too; add one, or leave "
           "[canary] out");
    }
    for (const auto& [kind, node] : canary->table) {
      if (kind == "share") continue;
      if (known_.contains(kind) && !sched::has_canary(kind)) {
        fail(node, "canary." + kind,
             "this kind decides for many requests at once, so a share of the sessions cannot have "
             "a policy of its own; kinds that can:" +
                 canary_kinds());
        continue;
      }
      read_kind(kind, node, "canary.", outcome_.set.canary);
    }
  }

  std::string canary_kinds() const {
    std::string out;
    for (const std::string& kind : known_) {
      if (sched::has_canary(kind)) out += " " + kind;
    }
    return out;
  }

  /// @param section  "", "shadow." or "canary."
  void read_kind(const std::string& kind, const ConfigNode& node, const std::string& section,
                 std::map<std::string, sched::PolicySpec>& into) {
    const std::string path = section + kind;
    if (registry_.kinds_without_stage().contains(kind)) {
      return fail(node, path,
                  "no part of this version asks policies of this kind yet; remove the table");
    }
    if (!known_.contains(kind)) {
      std::set<std::string> valid = known_;
      if (section.empty()) valid.insert(kOtherTables.begin(), kOtherTables.end());
      if (section == "canary.") {
        std::erase_if(valid, [](const std::string& one) { return !sched::has_canary(one); });
        valid.insert("share");
      }
      return fail(node, path, "unknown kind of policy" + name_hint(kind, valid));
    }
    if (node.kind != NodeKind::table) {
      return fail(node, path, "found " + node.shown() + ", expected a table [" + path + "]");
    }
    sched::PolicySpec spec{registry_.default_name(kind), OptionTable(kind)};
    if (!read_policy_name(kind, node, path, spec.policy)) return;
    ConfigNode options = node;
    options.table.erase("policy");
    if (!read_options(options, path, spec.options, outcome_.errors)) return;
    const auto built = registry_.build(kind, spec, outcome_.set.libraries);
    if (!built.ok()) {
      outcome_.errors.push_back(option_error(built.error().message, node, kind, path));
      return;
    }
    into.emplace(kind, std::move(spec));
  }

  /// False when it is not the name of a policy of this kind.
  bool read_policy_name(const std::string& kind, const ConfigNode& node, const std::string& path,
                        std::string& policy) {
    const auto at = node.table.find("policy");
    if (at == node.table.end()) return true;
    const ConfigNode& value = at->second;
    const std::set<std::string> names = registry_.names(kind, outcome_.set.libraries);
    if (value.kind != NodeKind::text) {
      fail(value, path + ".policy",
           "found " + value.shown() + ", expected the name of a policy" + name_hint("", names));
      return false;
    }
    policy = value.text;
    if (names.contains(policy)) return true;
    // It may stand in a library that was refused: that is the one cause.
    if (!libraries_fail_) {
      fail(value, path + ".policy",
           "found " + value.shown() + ", expected a policy of this kind" +
               name_hint(policy, names));
    }
    return false;
  }

  const ConfigNode& root_;
  const sched::PolicyRegistry& registry_;
  PolicyOutcome& outcome_;
  const std::set<std::string> known_; ///< Kinds.
  bool libraries_fail_ = false;
};

} // namespace

PolicyOutcome bind_policy_set(const ConfigNode& root, const sched::PolicyRegistry& registry) {
  PolicyOutcome outcome;
  SetReader(root, registry, outcome).read();
  if (!outcome.ok()) outcome.set = {};
  std::stable_sort(outcome.errors.begin(), outcome.errors.end(),
                   [](const ConfigError& a, const ConfigError& b) { return a.line < b.line; });
  return outcome;
}

bool looks_like_policy_file(const ConfigNode& root, const sched::PolicyRegistry& registry) {
  const std::set<std::string> kinds = registry.kinds();
  const bool is_empty_set = root.table.size() == 1 && root.table.contains("name");
  return is_empty_set || std::any_of(root.table.begin(), root.table.end(), [&](const auto& entry) {
           return kinds.contains(entry.first) || kOtherTables.contains(entry.first);
         });
}

} // namespace troupe::app
