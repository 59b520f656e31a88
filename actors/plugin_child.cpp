#include "actors/plugin_child.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <poll.h>
#include <spawn.h>
#include <string_view>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace troupe::actors {
namespace {

constexpr std::size_t kPrintedMax = 4096;  ///< Bytes kept of what a child prints.
constexpr std::size_t kReportMax = 65'536; ///< A child that reports more is killed.
constexpr std::int64_t kLinesMax = 256;    ///< So is one with more lines: each begins a new phase.
constexpr std::int64_t kGraceMs = 1'000;   ///< For the end of a process after its verdict.

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Both ends close on exec and with this object.
struct Pipe {
  std::array<int, 2> ends{-1, -1};

  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  bool open() { return ::pipe2(ends.data(), O_CLOEXEC) == 0; }
  void close_end(std::size_t i) {
    if (ends[i] >= 0) ::close(ends[i]);
    ends[i] = -1;
  }
};

/// What posix_spawn is to do in the child before the program begins.
class SpawnPlan {
public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  int start(pid_t& child, const ChildOrder& order, int printed, int report) {
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, printed, 1);
    posix_spawn_file_actions_adddup2(&actions_, printed, 2);
    posix_spawn_file_actions_adddup2(&actions_, report, kReportDescriptor);
    posix_spawn_file_actions_addclosefrom_np(&actions_, kReportDescriptor + 1);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                               POSIX_SPAWN_SETPGROUP);
    std::vector<char*> words = {const_cast<char*>(order.program.c_str())};
    for (const std::string& word : order.arguments)
      words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    std::vector<char*> variables = {const_cast<char*>("TROUPE_PREFLIGHT=1")};
    for (char** one = environ; one != nullptr && *one != nullptr; ++one)
      variables.push_back(*one);
    variables.push_back(nullptr);
    return ::posix_spawn(&child, order.program.c_str(), &actions_, &attributes_, words.data(),
                         variables.data());
  }

private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

/// Reads what a child says until it has ended or must be.
class Listener {
public:
  Listener(const ChildOrder& order, ChildEnd& end)
      : order_(order), end_(end), due_ms_(now_ms() + order.start_ms) {}

  /// @return  false when the child took too long, or says what no child may
  bool listen(int report, int printed) {
    std::array<pollfd, 2> watched = {pollfd{report, POLLIN, 0}, pollfd{printed, POLLIN, 0}};
    while (watched[0].fd >= 0 && !has_verdict_) {
      const std::int64_t left_ms = due_ms_ - now_ms();
      if (left_ms <= 0) return false;
      const int ready = ::poll(watched.data(), watched.size(),
                               static_cast<int>(std::min<std::int64_t>(left_ms, 60'000)));
      if (ready < 0 && errno != EINTR) return false;
      if (ready <= 0) continue;
      if (watched[0].revents != 0 && !take_report(watched[0])) return false;
      if (watched[1].revents != 0) take_printed(watched[1]);
    }
    // What it printed last may still be in the pipe; it must not block.
    ::fcntl(printed, F_SETFL, O_NONBLOCK);
    while (watched[1].fd >= 0 && take_printed(watched[1])) {
    }
    return true;
  }

  bool has_verdict() const noexcept { return has_verdict_; }

private:
  bool take_report(pollfd& from) {
    std::array<char, 1024> bytes;
    const ssize_t n = ::read(from.fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) return true;
    if (n <= 0) {
      from.fd = -1;
      return true;
    }
    report_.append(bytes.data(), static_cast<std::size_t>(n));
    reported_ += static_cast<std::size_t>(n);
    for (std::size_t at = report_.find('\n'); at != std::string::npos; at = report_.find('\n')) {
      take_line(report_.substr(0, at));
      report_.erase(0, at + 1);
    }
    return reported_ <= kReportMax && lines_ <= kLinesMax;
  }

  void take_line(const std::string& line) {
    ++lines_;
    due_ms_ = now_ms() + order_.phase_ms;
    if (line.rfind("at ", 0) == 0) {
      end_.phase = line.substr(3);
    } else if (line == "ok") {
      has_verdict_ = true;
      end_.how = ChildEnd::How::said_ok;
    } else if (line.rfind("no ", 0) == 0) {
      has_verdict_ = true;
      end_.how = ChildEnd::How::said_no;
      end_.reason = line.substr(3);
    } else if (order_.on_line) {
      order_.on_line(line);
    }
  }

  bool take_printed(pollfd& from) {
    std::array<char, 1024> bytes;
    const ssize_t n = ::read(from.fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) return true;
    if (n <= 0) {
      from.fd = -1;
      return false;
    }
    end_.printed.append(bytes.data(), static_cast<std::size_t>(n));
    if (end_.printed.size() > kPrintedMax) {
      end_.printed.erase(0, end_.printed.size() - kPrintedMax);
    }
    return true;
  }

  const ChildOrder& order_;
  ChildEnd& end_;
  std::int64_t due_ms_;
  std::string report_;
  std::size_t reported_ = 0;
  std::int64_t lines_ = 0;
  bool has_verdict_ = false;
};

/// Whether the child has ended; it keeps its number until it is reaped.
bool has_ended(pid_t child) {
  siginfo_t facts{};
  const int answer = ::waitid(P_PID, static_cast<id_t>(child), &facts, WEXITED | WNOHANG | WNOWAIT);
  return answer != 0 ? errno != EINTR : facts.si_pid == child;
}

/// Waits for the child's end, at most so long, then ends it and all that it started.
int reap(pid_t child, std::int64_t limit_ms) {
  const std::int64_t due_ms = now_ms() + limit_ms;
  while (!has_ended(child) && now_ms() < due_ms)
    ::poll(nullptr, 0, 1);
  if (!has_ended(child)) {
    ::kill(child, SIGSTOP); // It must not start another one meanwhile.
    end_descendants(child);
  }
  ::kill(-child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

/// Every process with the one that started it, or adopted it.
std::multimap<pid_t, pid_t> children_of_all() {
  std::multimap<pid_t, pid_t> children;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", code)) {
    const pid_t number = std::atoi(entry.path().filename().c_str());
    if (number <= 0) continue;
    std::ifstream in(entry.path() / "stat");
    std::string line;
    std::getline(in, line);
    // "NUMBER (NAME) STATE PARENT ..."; a name may hold anything.
    const std::size_t name_end = line.rfind(") ");
    if (name_end == std::string::npos || name_end + 4 > line.size()) continue;
    children.emplace(std::atoi(line.c_str() + name_end + 4), number);
  }
  return children;
}

} // namespace

void end_descendants(int root) {
  const auto children = children_of_all();
  std::vector<pid_t> open = {root};
  while (!open.empty()) {
    const auto [first, last] = children.equal_range(open.back());
    open.pop_back();
    for (auto at = first; at != last; ++at) {
      ::kill(at->second, SIGKILL);
      open.push_back(at->second);
    }
  }
}

ChildEnd run_child(const ChildOrder& order) {
  ChildEnd end;
  Pipe report;
  Pipe printed;
  pid_t child = -1;
  if (!report.open() || !printed.open()) {
    end.number = errno;
    return end;
  }
  end.number = SpawnPlan().start(child, order, printed.ends[1], report.ends[1]);
  if (end.number != 0) return end;
  report.close_end(1);
  printed.close_end(1);
  Listener listener(order, end);
  const bool in_time = listener.listen(report.ends[0], printed.ends[0]);
  const int status = reap(child, in_time ? kGraceMs : 0);
  if (listener.has_verdict()) return end;
  if (!in_time) {
    end.how = ChildEnd::How::hung;
  } else if (WIFSIGNALED(status)) {
    end.how = ChildEnd::How::killed;
    end.number = WTERMSIG(status);
  } else {
    end.how = ChildEnd::How::exited;
    end.number = WEXITSTATUS(status);
  }
  return end;
}

} // namespace troupe::actors
