#include "actors/app/exit_guard.hpp"

#include "actors/app/commands.hpp"

#include <atomic>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

namespace troupe::app {

namespace {

std::atomic<bool> runs{false};

/// Other threads still run, and what they use is not destroyed: it goes no further than this.
void end_here() {
  if (!runs) return;
  constexpr std::string_view kText =
      "troupe: somebody in the process called exit(), a loaded policy library most likely; the job "
      "stopped, its finished lines are safe; without that library the same command goes on\n";
  if (::write(STDERR_FILENO, kText.data(), kText.size()) < 0) std::_Exit(kExitFailed);
  std::_Exit(kExitFailed);
}

} // namespace

ExitGuard::ExitGuard() noexcept {
  static const bool is_registered = std::atexit(end_here) == 0;
  runs = is_registered;
}

ExitGuard::~ExitGuard() { runs = false; }

} // namespace troupe::app
