#include "actors/app/signals.hpp"

#include "actors/app/commands.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace troupe::app {

namespace {

constexpr int kSignalsMax = 2; ///< More than these end the process without ceremony.
constexpr rlim_t kStackBytesMin = 256 << 10;

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

[[noreturn]] void end_saying(const char* text) noexcept {
  say(text);
  std::_Exit(kExitFailed);
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
  end_saying("; most often memory or threads ran out (ulimit -v, ulimit -u); the same command goes "
             "on\n");
}

/// Of a job that is not done. Other threads still run, and what they use is not destroyed: exit()
/// goes no further than this.
std::atomic<bool> exit_is_guarded{false};

void end_guarded() {
  if (!exit_is_guarded) return;
  end_saying("troupe: somebody in the process called exit(), a loaded policy library most likely; "
             "the job stopped, its finished lines are safe; without that library the same command "
             "goes on\n");
}

} // namespace

void explain_termination() noexcept { std::set_terminate(end_with_message); }

void open_standard_streams() noexcept {
  // open() gives the lowest free number, so that one pass closes all gaps.
  // Reading standard input and writing standard output then fail, as they would without this.
  constexpr std::array<int, 3> kModes = {O_WRONLY, O_RDONLY, O_RDWR};
  for (int fd = 0; fd <= 2; ++fd) {
    const int mode = kModes.at(static_cast<std::size_t>(fd));
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", mode) < 0) std::_Exit(kExitFailed);
  }
}

bool has_stack_room() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kStackBytesMin) return true;
  say("troupe: the stack is smaller than 256 KiB; raise its limit: ulimit -s 8192\n");
  return false;
}

void explain_aborts() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  std::signal(SIGABRT, [](int) {
    end_saying("troupe: a library ended the process, most likely for want of memory (ulimit -v); "
               "what was committed is safe; raise the limit, and the same command goes on\n");
  });
}

ExitGuard::ExitGuard() noexcept {
  static const bool is_registered = std::atexit(end_guarded) == 0;
  exit_is_guarded = is_registered;
}

ExitGuard::~ExitGuard() { exit_is_guarded = false; }

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
