// (kind, name) to factory: how a policy set becomes instances of one stage.
//
// Registration is a function call; a duplicate is a bug, an unknown name lists the near ones.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/policy/policy.hpp"
#include "schedulers/registry/policy_set.hpp"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::sched {

/// Builds one instance from its options; reads every option it knows and calls finish().
using PolicyFactory = std::function<Result<std::unique_ptr<Policy>>(OptionTable options)>;

/// Where policies of shared objects come from. Thread: any.
class LibrarySource {
public:
  virtual ~LibrarySource() = default;

  /// Factory of a policy of this library; none when it holds no such policy, as when kind and name
  /// are empty because somebody asks only whether the library can be loaded. A factory keeps the
  /// library loaded, and so does each instance it makes. Errors name the file and what is wrong.
  virtual Result<PolicyFactory> find(const LibrarySpec& library, const std::string& kind,
                                     const std::string& name) = 0;
  /// Names of the policies of `kind` in this library; empty when it cannot be loaded.
  virtual std::set<std::string> names(const LibrarySpec& library, const std::string& kind) = 0;
  /// The version that the library says it has; "" when it says none.
  virtual std::string version(const LibrarySpec& /*library*/) { return {}; }
  /// Options that a policy of this library takes, with their defaults; those without one are
  /// missing.
  virtual OptionTable::Defaults option_defaults(const LibrarySpec& /*library*/,
                                                const std::string& /*kind*/,
                                                const std::string& /*name*/) {
    return {};
  }
};

class PolicyRegistry {
public:
  /// @pre (kind, name) is not registered yet
  void add(const std::string& kind, const std::string& name, PolicyFactory factory);

  /// Names the policy that a kind uses when the set leaves it out. @pre it is registered
  void set_default(const std::string& kind, const std::string& name);

  /// Marks a kind as one that no stage asks yet: its policies build and run on their own, and a
  /// policy file that names it is refused. @pre it is registered
  void set_without_stage(const std::string& kind);

  /// Lets sets name policies of shared objects. Without a source a set with libraries is refused.
  void set_library_source(std::shared_ptr<LibrarySource> source) { source_ = std::move(source); }

  /// Builds the set's instance of `kind`. Errors name the key and the nearest valid name.
  Result<std::unique_ptr<Policy>> build(const std::string& kind, const PolicySet& set) const;

  /// Builds an instance of `kind` as `spec` says, built in or from one of `libraries`; a name that
  /// is built in is never looked for elsewhere.
  Result<std::unique_ptr<Policy>> build(const std::string& kind, const PolicySpec& spec,
                                        const std::vector<LibrarySpec>& libraries) const;

  /// Builds the documented default of `kind` without options: what replaces an invalid decision.
  std::unique_ptr<Policy> build_default(const std::string& kind) const;

  /// Builds every kind, shadow and canary once and throws the instances away; also refuses unknown
  /// kinds, libraries that cannot be loaded, and a canary of a kind that does not decide for one
  /// request.
  Status check(const PolicySet& set) const;

  /// Kinds that a policy file may name.
  std::set<std::string> kinds() const;
  std::set<std::string> kinds_without_stage() const { return without_stage_; }
  std::set<std::string> names(const std::string& kind) const;
  /// The same with those of these libraries.
  std::set<std::string> names(const std::string& kind,
                              const std::vector<LibrarySpec>& libraries) const;
  /// Whether this library can be loaded here. Errors name the file and what is wrong.
  Status check_library(const LibrarySpec& library) const;
  /// Where a policy that is not built in comes from; null for one that is, or that none has.
  const LibrarySpec* library_of(const std::string& kind, const std::string& name,
                                const std::vector<LibrarySpec>& libraries) const;
  /// As LibrarySource::version.
  std::string version_of(const LibrarySpec& library) const;
  std::string default_name(const std::string& kind) const;
  /// Options that a policy takes, built in or of one of `libraries`, with their defaults; those
  /// without one are missing. Empty for any other policy.
  OptionTable::Defaults option_defaults(const std::string& kind, const std::string& name,
                                        const std::vector<LibrarySpec>& libraries = {}) const;

private:
  std::map<std::string, std::map<std::string, PolicyFactory>> factories_;
  std::map<std::string, std::string> defaults_;
  std::set<std::string> without_stage_;
  std::shared_ptr<LibrarySource> source_; ///< May be null.
};

/// Kinds that decide for one request, and so may have a canary.
bool has_canary(const std::string& kind);

/// The only list of in-tree policies.
void register_builtin_policies(PolicyRegistry& registry);

} // namespace troupe::sched
