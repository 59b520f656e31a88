// Work that a policy library may end at any moment, in a process of its own.

#pragma once

#include "schedulers/core/result.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace troupe::app {

/// The work's line to the process that waits for it.
class WorkLine {
public:
  explicit WorkLine(int line) : line_(line) {}

  /// Says that it goes on; to be called more often than the longest silence.
  void beat();
  /// Names somebody who may be to blame when the process ends.
  void suspect(const std::string& name);
  /// The work is done and all of it printed: ends the process at once, without asking anybody to
  /// clean up.
  [[noreturn]] void finish(int exit_code);

private:
  void say(const std::string& text);

  int line_;
  std::chrono::steady_clock::time_point said_{};
};

/// How such work ended.
struct WorkEnd {
  bool finished = false;
  int exit_code = 0; ///< Of finish().
  std::string what;  ///< Else: "the process was ended by SIGSEGV".
  std::vector<std::string> suspects;
};

/// Runs `work` in a child process, and ends it when nothing is heard of it for `silent_max`. The
/// child ends with this process. Thread: the only one of this process.
///
/// @param work  finishes its line; throws nothing
///
/// Errors: io_error when no process can be started.
Result<WorkEnd> do_guarded(const std::function<void(WorkLine&)>& work,
                           std::chrono::milliseconds silent_max);

} // namespace troupe::app
