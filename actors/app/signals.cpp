#include "actors/app/signals.hpp"

#include "actors/app/commands.hpp"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>

namespace troupe::app {

namespace {

constexpr int kSignalsMax = 2; ///< More than these end the process without ceremony.

volatile std::sig_atomic_t seen = 0;
volatile std::sig_atomic_t last = 0;

void count(int signal) {
  seen = seen + 1;
  last = signal;
  if (seen > kSignalsMax) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

/// Memory may be gone: nothing here asks for any.
void say(const char* text) noexcept {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) std::_Exit(kExitFailed);
}

[[noreturn]] void end_with_message() noexcept {
  say("troupe: ended by an error that nothing caught: ");
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
    say("a thread was left behind");
  } catch (const std::exception& error) {
    say(error.what());
  } catch (...) {
    say("unknown");
  }
  say("; most often memory or threads ran out (ulimit -v, ulimit -u); the same command goes on\n");
  std::_Exit(kExitFailed);
}

} // namespace

void explain_termination() noexcept { std::set_terminate(end_with_message); }

void open_standard_streams() noexcept {
  // open() gives the lowest free number, so that one pass closes all gaps.
  for (int fd = 0; fd <= 2; ++fd) {
    // Reading standard input and writing standard output then fail, as they would without this.
    const int mode = fd == 0 ? O_WRONLY : fd == 1 ? O_RDONLY : O_RDWR;
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", mode) < 0) std::_Exit(kExitFailed);
  }
}

void explain_aborts() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  std::signal(SIGABRT, [](int) {
    constexpr std::string_view kText =
        "troupe: a library ended the process, most likely for want of memory (ulimit -v); what was "
        "committed is safe; raise the limit, and the same command goes on\n";
    if (::write(STDERR_FILENO, kText.data(), kText.size()) < 0) std::_Exit(kExitFailed);
    std::_Exit(kExitFailed);
  });
}

void ignore_write_signals() noexcept {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = count;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    // One that is ignored at the start (nohup, a shell's background job) stays ignored.
    struct sigaction before {};
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    sigaction(signal, &action, nullptr);
  }
}

int signals_seen() noexcept { return seen; }

int last_signal_exit_code() noexcept { return last == SIGINT ? kExitInterrupted : kExitTerminated; }

} // namespace troupe::app
