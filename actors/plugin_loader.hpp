// Policies of shared objects for the registry: checked in a child process, loaded once, counted by
// their users, gone after the last one.

#pragma once

#include "actors/plugin_library.hpp"
#include "actors/plugin_preflight.hpp"
#include "schedulers/registry/policy_registry.hpp"

#include <memory>
#include <set>
#include <string>

namespace troupe::actors {

struct PluginLoaderOptions {
  /// Look at libraries and policies in a child process first; off only for what is such a child,
  /// or looked already.
  bool preflight = true;
  PreflightProgram child;
};

/// Thread: any; a call may wait for another one that looks at a library, unless its set names the
/// digest of one that is in memory.
class PluginLoader final : public sched::LibrarySource {
public:
  explicit PluginLoader(PluginLoaderOptions options = {});
  ~PluginLoader() override;

  /// A library with the digest that the set names is used as it is in memory; otherwise the file is
  /// read. When that has another digest by now, or is gone, the bytes with the set's digest are
  /// taken from those that were loaded last (8 libraries, 64 MiB); else it is refused.
  Result<sched::PolicyFactory> find(const sched::LibrarySpec& library, const std::string& kind,
                                    const std::string& name) override;
  std::set<std::string> names(const sched::LibrarySpec& library, const std::string& kind) override;

  /// What the library says of itself; "" when it cannot be loaded.
  std::string version(const sched::LibrarySpec& library) override;

  OptionTable::Defaults option_defaults(const sched::LibrarySpec& library, const std::string& kind,
                                        const std::string& name) override;

  /// The loaded library; it stays while the result lives.
  Result<std::shared_ptr<const PluginLibrary>> open(const sched::LibrarySpec& library);

private:
  struct State;
  std::shared_ptr<State> state_; ///< Shared with factories, which may outlive the loader.
};

/// What a policy set says of a library's bytes: its digest. Errors name the path.
Result<std::string> library_digest(const std::string& path);

} // namespace troupe::actors
