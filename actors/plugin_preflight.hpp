// The look at a library in another process, before this one loads it: what crashes or hangs there
// is refused with what happened.

#pragma once

#include "actors/plugin_library.hpp"
#include "schedulers/registry/policy_set.hpp"

#include <span>
#include <string>
#include <vector>

namespace troupe::actors {

/// The program that calls preflight_child() with what follows its own arguments.
struct PreflightProgram {
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments = {"policy", "test", "--preflight"};
};

/// One policy to be created and asked in the child; without a name the library is only loaded.
struct PreflightPolicy {
  std::string kind;
  std::string name;
  std::string options = "{}"; ///< One JSON object.
};

/// Loads `file` in a child process, and creates and asks `policy` there. Every phase (load, create,
/// asking, state, unload) takes at most the library's create_ms. Errors name the file, the phase
/// and what happened: signal, time, exit code or the library's words.
Status preflight(const PreflightProgram& program, const LibraryFile& file,
                 const sched::LibrarySpec& limits, const PreflightPolicy& policy);

/// The child's side: looks as it was told, reports, and ends the process. `arguments` are those
/// behind `program.arguments`.
[[noreturn]] void preflight_child(std::span<const std::string> arguments);

/// Becomes the child's side when the arguments of this process say so: it speaks to its parent
/// only, and stands in no help. Else returns.
void look_at_library(int argc, char** argv);

/// Whether this process is such a child: it must not start one itself.
bool is_preflight_child() noexcept;

} // namespace troupe::actors
