#include "schedulers/registry/policy_registry.hpp"

#include <utility>

namespace troupe::sched {
namespace {

std::string choices(const std::string& word, const std::set<std::string>& valid) {
  std::string text;
  const std::string near = nearest_name(word, valid);
  if (!near.empty()) text += "; did you mean \"" + near + "\"?";
  text += near.empty() ? "; valid:" : " Valid:";
  for (const std::string& name : valid)
    text += " " + name;
  return text;
}

} // namespace

void PolicyRegistry::add(const std::string& kind, const std::string& name, PolicyFactory factory) {
  const bool added = factories_[kind].emplace(name, std::move(factory)).second;
  TROUPE_CHECK(added, "a policy is registered once");
}

void PolicyRegistry::set_default(const std::string& kind, const std::string& name) {
  TROUPE_CHECK(names(kind).count(name) != 0, "a default is a registered policy");
  defaults_[kind] = name;
}

void PolicyRegistry::set_without_stage(const std::string& kind) {
  TROUPE_CHECK(factories_.count(kind) != 0, "a kind without a stage is registered");
  without_stage_.insert(kind);
}

Result<std::unique_ptr<Policy>> PolicyRegistry::build(const std::string& kind,
                                                      const PolicySet& set) const {
  const auto of_kind = factories_.find(kind);
  if (of_kind == factories_.end()) {
    return {ErrorCode::unknown_key, kind + ": unknown kind of policy" + choices(kind, kinds())};
  }
  const auto chosen = set.kinds.find(kind);
  const bool left_out = chosen == set.kinds.end() || chosen->second.policy.empty();
  const std::string name = left_out ? default_name(kind) : chosen->second.policy;
  const auto factory = of_kind->second.find(name);
  if (factory == of_kind->second.end()) {
    return {ErrorCode::unknown_key, kind + ".policy: found \"" + name +
                                        "\", expected a policy of this kind" +
                                        choices(name, names(kind))};
  }
  // A table without a name would print bare keys; the kind is the table's name in the file.
  OptionTable options(kind);
  if (chosen != set.kinds.end()) {
    for (const auto& [key, value] : chosen->second.options.values())
      options.set(key, value);
  }
  return factory->second(std::move(options));
}

std::unique_ptr<Policy> PolicyRegistry::build_default(const std::string& kind) const {
  auto built = build(kind, PolicySet{});
  TROUPE_CHECK(built.ok(), "the default of a kind builds without options");
  return std::move(built).value();
}

Status PolicyRegistry::check(const PolicySet& set) const {
  for (const auto& [kind, spec] : set.kinds) {
    if (factories_.count(kind) == 0 || without_stage_.count(kind) != 0) {
      return Status(ErrorCode::unknown_key,
                    kind + ": unknown kind of policy" + choices(kind, kinds()));
    }
  }
  for (const auto& [kind, factories] : factories_) {
    const auto built = build(kind, set);
    if (!built.ok()) return built.status();
  }
  return {};
}

std::set<std::string> PolicyRegistry::kinds() const {
  std::set<std::string> all;
  for (const auto& [kind, factories] : factories_) {
    if (without_stage_.count(kind) == 0) all.insert(kind);
  }
  return all;
}

std::set<std::string> PolicyRegistry::names(const std::string& kind) const {
  std::set<std::string> all;
  const auto found = factories_.find(kind);
  if (found == factories_.end()) return all;
  for (const auto& [name, factory] : found->second)
    all.insert(name);
  return all;
}

std::string PolicyRegistry::default_name(const std::string& kind) const {
  const auto found = defaults_.find(kind);
  return found == defaults_.end() ? std::string() : found->second;
}

} // namespace troupe::sched
