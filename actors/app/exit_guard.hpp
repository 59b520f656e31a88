// A library that calls exit() must not make an unfinished job look finished.

#pragma once

namespace troupe::app {

/// While it lives, exit() by whoever calls it ends the process with kExitFailed and a message. A
/// library that calls _exit() cannot be caught. Thread: any; one at a time.
class ExitGuard {
public:
  ExitGuard() noexcept;
  ~ExitGuard();
  ExitGuard(const ExitGuard&) = delete;
  ExitGuard& operator=(const ExitGuard&) = delete;
};

} // namespace troupe::app
