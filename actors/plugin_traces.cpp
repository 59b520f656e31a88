#include "actors/plugin_traces.hpp"

#include "actors/plugin_child.hpp"
#include "schedulers/core/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <pthread.h>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace troupe::actors {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kBoundsMemory = false;
#elif defined(__has_feature)
constexpr bool kBoundsMemory = !__has_feature(address_sanitizer);
#else
constexpr bool kBoundsMemory = true;
#endif

/// What the program itself handles, and what tells of a crash.
constexpr std::array kSignals = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGPIPE, SIGCHLD,
                                 SIGABRT, SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGXFSZ};

/// The process as others see it.
struct Facts {
  std::string folder;
  mode_t mask = 0;
  std::array<void (*)(int), kSignals.size()> handlers{};
  long held = 0;    ///< Bytes of data.
  long touched = 0; ///< The most bytes that were in memory at once.
};

/// A number of kilobytes in /proc/self/status, as bytes; 0 where there is none.
long status_bytes(std::string_view key) {
  std::ifstream in("/proc/self/status");
  std::string line;
  while (std::getline(in, line)) {
    if (line.starts_with(key)) return std::strtol(line.c_str() + key.size(), nullptr, 10) * 1024;
  }
  return 0;
}

std::string working_folder() {
  std::array<char, 4096> path{};
  return ::getcwd(path.data(), path.size()) != nullptr ? path.data() : "";
}

Facts facts_of_now() {
  Facts facts;
  facts.folder = working_folder();
  facts.mask = ::umask(0);
  ::umask(facts.mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action {};
    ::sigaction(kSignals[i], nullptr, &action);
    facts.handlers[i] = action.sa_handler; // Shares its place with sa_sigaction.
  }
  facts.held = status_bytes("VmData:");
  facts.touched = status_bytes("VmHWM:");
  return facts;
}

pid_t traced = 0;
Facts before;
std::optional<rlimit> memory_limit; ///< As it was.
std::atomic<bool> forked{false};

void say_fork() { forked = true; }
/// Two processes that run the same suite could be thousands in the end.
void end_copy() { ::_exit(0); }

/// The user's own limit stays where it is lower.
void bound_memory() {
  rlimit limit{};
  if (!kBoundsMemory || ::getrlimit(RLIMIT_DATA, &limit) != 0) return;
  memory_limit = limit;
  limit.rlim_cur = std::min(limit.rlim_cur, static_cast<rlim_t>(before.held + 2 * kTraceMemoryMax));
  ::setrlimit(RLIMIT_DATA, &limit);
}

/// Whether any process was left; none is when this returns.
bool end_left_processes() {
  bool is_any = false;
  for (int rounds = 100; rounds > 0;) {
    const pid_t child = ::waitpid(-1, nullptr, WNOHANG);
    if (child < 0 && errno == ECHILD) break;
    is_any = true;
    if (child != 0) continue;
    end_descendants(::getpid());
    ::waitpid(-1, nullptr, 0);
    --rounds; // What is killed may have started another one before.
  }
  return is_any;
}

} // namespace

void begin_traces() {
  traced = ::getpid();
  before = facts_of_now();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::pthread_atfork(say_fork, nullptr, end_copy);
  bound_memory();
}

bool is_traced_process() noexcept { return traced == 0 || ::getpid() == traced; }

Status end_traces() {
  const auto refused = [](std::string what) {
    return Status(ErrorCode::unsupported, std::move(what));
  };
  if (traced == 0) return {};
  if (memory_limit) ::setrlimit(RLIMIT_DATA, &*memory_limit);
  const Facts now = facts_of_now();
  const bool has_left = end_left_processes();
  if (has_left) return refused("leaves processes behind; a library may not fork");
  if (forked) return refused("forks; a library may not, for the copy holds all files of the job");
  if (now.folder != before.folder) {
    return refused(fmt::format("changes the working directory to {}; a library may not, for the "
                               "job's paths begin there",
                               printable(now.folder, kShownPathMax)));
  }
  if (now.mask != before.mask) {
    return refused(fmt::format("changes the umask from {:03o} to {:03o}; a library may not, for it "
                               "is that of the job's files",
                               before.mask, now.mask));
  }
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (now.handlers[i] == before.handlers[i]) continue;
    return refused(
        fmt::format("changes what SIG{} does; a library may not", ::sigabbrev_np(kSignals[i])));
  }
  const long grown = std::max(now.held - before.held, now.touched - before.touched);
  if (kBoundsMemory && grown > kTraceMemoryMax) {
    return refused(fmt::format("takes {} MiB of memory, expected at most {} MiB", grown >> 20,
                               kTraceMemoryMax >> 20));
  }
  return {};
}

} // namespace troupe::actors
