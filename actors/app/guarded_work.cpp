#include "actors/app/guarded_work.hpp"

#include "actors/plugin_child_report.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace troupe::app {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{100}; ///< Between two looks whether the child lives.
constexpr std::string_view kBeat = "beat", kSuspect = "suspect ", kDone = "done ";

/// What the child said, line by line.
class Heard {
public:
  explicit Heard(WorkEnd& end) : end_(end) {}

  /// Reads what is there; whether anything was.
  bool read_from(int line) {
    bool any = false;
    std::array<char, 4096> bytes;
    for (;;) {
      const ssize_t n = ::read(line, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return any;
      any = true;
      text_.append(bytes.data(), static_cast<std::size_t>(n));
      take_lines();
    }
  }

private:
  void take_lines() {
    for (std::size_t at = text_.find('\n'); at != std::string::npos; at = text_.find('\n')) {
      const std::string line = text_.substr(0, at);
      text_.erase(0, at + 1);
      if (line.starts_with(kSuspect)) end_.suspects.push_back(line.substr(kSuspect.size()));
      if (!line.starts_with(kDone)) continue;
      end_.finished = true;
      end_.exit_code = std::atoi(line.c_str() + kDone.size());
    }
  }

  WorkEnd& end_;
  std::string text_;
};

std::string end_text(int status) {
  if (!WIFSIGNALED(status)) {
    return "somebody in the process ended it with exit code " + std::to_string(WEXITSTATUS(status));
  }
  return "the process was ended by " + actors::signal_text(WTERMSIG(status));
}

/// Waits for the child; what it says goes to `end`.
void wait_for(pid_t child, int line, std::chrono::milliseconds silent_max, WorkEnd& end) {
  Heard heard(end);
  // Counted from look to look: time in which both were stopped (Ctrl-Z) is no silence.
  std::chrono::milliseconds silent{0};
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    const auto before = Clock::now();
    pollfd watched{line, POLLIN, 0};
    ::poll(&watched, 1, static_cast<int>(kLook.count()));
    const bool heard_any = heard.read_from(line);
    // A line that somebody closed is always ready.
    if (!heard_any && watched.revents != 0) std::this_thread::sleep_for(kLook);
    const auto looked =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - before);
    silent = heard_any ? silent.zero() : silent + std::min(looked, 2 * kLook);
    if (silent < silent_max) continue;
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    heard.read_from(line);
    end.what = "nothing was heard of it for " + std::to_string(silent_max.count() / 1000) +
               " s: somebody does not return";
    return;
  }
  heard.read_from(line);
  if (!end.finished) end.what = end_text(status);
}

} // namespace

void WorkLine::say(const std::string& text) {
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t n = ::write(line_, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return; // Nobody listens any more.
    left.remove_prefix(static_cast<std::size_t>(n));
  }
}

void WorkLine::beat() {
  const auto now = Clock::now();
  if (now - said_ < std::chrono::seconds(1)) return;
  said_ = now;
  say(std::string(kBeat) + "\n");
}

void WorkLine::suspect(const std::string& name) {
  std::string line = std::string(kSuspect) + name;
  std::replace(line.begin(), line.end(), '\n', ' ');
  say(line + "\n");
}

void WorkLine::finish(int exit_code) {
  say(std::string(kDone) + std::to_string(exit_code) + "\n");
  std::_Exit(exit_code);
}

Result<WorkEnd> do_guarded(const std::function<void(WorkLine&)>& work,
                           std::chrono::milliseconds silent_max) {
  std::array<int, 2> line{};
  const auto failure = [](const char* what) {
    return Error{ErrorCode::io_error, std::string(what) + ": " + std::strerror(errno)};
  };
  if (::pipe2(line.data(), O_CLOEXEC) != 0) return failure("no pipe can be made");
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    const Error error = failure("no process can be started");
    ::close(line[0]);
    ::close(line[1]);
    return error;
  }
  if (child == 0) {
    ::close(line[0]);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) std::_Exit(1);
    WorkLine to_parent(line[1]);
    work(to_parent);
    std::_Exit(1);
  }
  ::close(line[1]);
  ::fcntl(line[0], F_SETFL, O_NONBLOCK);
  WorkEnd end;
  wait_for(child, line[0], silent_max, end);
  ::close(line[0]);
  return end;
}

} // namespace troupe::app
