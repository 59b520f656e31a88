#include "schedulers/registry/policy_registry.hpp"

#include "schedulers/core/printable.hpp"
#include "schedulers/registry/kept_kinds.hpp"

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
  const auto chosen = set.kinds.find(kind);
  return build(kind, chosen == set.kinds.end() ? PolicySpec{} : chosen->second, set.libraries);
}

Result<std::unique_ptr<Policy>>
PolicyRegistry::build(const std::string& kind, const PolicySpec& spec,
                      const std::vector<LibrarySpec>& libraries) const {
  const auto of_kind = factories_.find(kind);
  if (of_kind == factories_.end()) {
    return {ErrorCode::unknown_key,
            printable(kind) + ": unknown kind of policy" + choices(kind, kinds())};
  }
  // A table without a name would print bare keys; the kind is the table's name in the file.
  OptionTable options(kind);
  for (const auto& [key, value] : spec.options.values())
    options.set(key, value);
  const std::string name = spec.policy.empty() ? default_name(kind) : spec.policy;
  const auto factory = of_kind->second.find(name);
  if (factory != of_kind->second.end()) return factory->second(std::move(options));
  std::set<std::string> valid = names(kind);
  for (const LibrarySpec& library : libraries) {
    if (!source_) return {check_library(library).error()};
    auto found = source_->find(library, kind, name);
    if (!found.ok()) return found.error();
    if (*found) return (*found)(std::move(options));
    valid.merge(source_->names(library, kind));
  }
  return {ErrorCode::unknown_key, kind + ".policy: found " + quote(name) +
                                      ", expected a policy of this kind" + choices(name, valid)};
}

std::unique_ptr<Policy> PolicyRegistry::build_default(const std::string& kind) const {
  auto built = build(kind, PolicySet{});
  TROUPE_CHECK(built.ok(), "the default of a kind builds without options");
  return std::move(built).value();
}

Status PolicyRegistry::check(const PolicySet& set) const {
  for (const LibrarySpec& library : set.libraries) {
    if (Status good = check_library(library); !good.ok()) return good;
  }
  for (const auto* specs : {&set.kinds, &set.shadow, &set.canary}) {
    for (const auto& [kind, spec] : *specs) {
      if (without_stage_.count(kind) != 0) {
        return Status(ErrorCode::unknown_key,
                      printable(kind) + ": no part of this version asks policies of this kind yet");
      }
      if (factories_.count(kind) == 0) {
        return Status(ErrorCode::unknown_key,
                      printable(kind) + ": unknown kind of policy" + choices(kind, kinds()));
      }
      if (specs == &set.canary && !has_canary(kind)) {
        return Status(ErrorCode::bad_argument,
                      "canary." + kind +
                          ": this kind decides for many requests at once; a "
                          "share of the sessions cannot have one of its own");
      }
      if (specs == &set.shadow && !keeps_questions(kind)) {
        return Status(ErrorCode::bad_argument,
                      "shadow." + kind +
                          ": questions of this kind are not kept, so that nobody else can be asked "
                          "them; remove the table");
      }
      if (const auto built = build(kind, spec, set.libraries); !built.ok()) return built.status();
    }
  }
  for (const auto& [kind, factories] : factories_) {
    const auto built = build(kind, set);
    if (!built.ok()) return built.status();
  }
  return {};
}

bool has_canary(const std::string& kind) {
  static const std::set<std::string> kOfOneRequest{"admission",    "prefill_router",
                                                   "handoff",      "decode_balancer",
                                                   "draft_length", "vision_balancer"};
  return kOfOneRequest.count(kind) != 0;
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

std::set<std::string> PolicyRegistry::names(const std::string& kind,
                                            const std::vector<LibrarySpec>& libraries) const {
  std::set<std::string> all = names(kind);
  for (const LibrarySpec& library : libraries) {
    if (source_) all.merge(source_->names(library, kind));
  }
  return all;
}

Status PolicyRegistry::check_library(const LibrarySpec& library) const {
  if (source_) return source_->find(library, "", "").status();
  return {ErrorCode::bad_argument,
          library.path + ": this program cannot load libraries of policies; take the library out "
                         "of the set and name policies that are built in"};
}

const LibrarySpec* PolicyRegistry::library_of(const std::string& kind, const std::string& name,
                                              const std::vector<LibrarySpec>& libraries) const {
  if (!source_ || names(kind).count(name) != 0) return nullptr;
  for (const LibrarySpec& library : libraries) {
    if (source_->names(library, kind).count(name) != 0) return &library;
  }
  return nullptr;
}

std::string PolicyRegistry::version_of(const LibrarySpec& library) const {
  return source_ ? source_->version(library) : std::string();
}

OptionTable::Defaults
PolicyRegistry::option_defaults(const std::string& kind, const std::string& name,
                                const std::vector<LibrarySpec>& libraries) const {
  if (const LibrarySpec* library = library_of(kind, name, libraries)) {
    return source_->option_defaults(*library, kind, name);
  }
  const auto of_kind = factories_.find(kind);
  if (of_kind == factories_.end()) return {};
  const auto factory = of_kind->second.find(name);
  if (factory == of_kind->second.end()) return {};
  const auto defaults = std::make_shared<OptionTable::Defaults>();
  OptionTable table(kind);
  table.report_defaults_to(defaults);
  static_cast<void>(factory->second(std::move(table)));
  return *defaults;
}

std::string PolicyRegistry::default_name(const std::string& kind) const {
  const auto found = defaults_.find(kind);
  return found == defaults_.end() ? std::string() : found->second;
}

} // namespace troupe::sched
