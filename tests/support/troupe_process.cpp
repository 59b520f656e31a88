#include "tests/support/troupe_process.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace troupe::test {

namespace {

constexpr std::chrono::minutes kLongest{10};
constexpr std::chrono::milliseconds kLookEvery{2};

std::string read_all(int fd) {
  std::string text;
  std::array<char, 65536> piece{};
  for (;;) {
    const ssize_t got = ::pread(fd, piece.data(), piece.size(), static_cast<off_t>(text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

void limit(int resource, std::int64_t bytes) {
  if (bytes == 0) return;
  const rlimit most{static_cast<rlim_t>(bytes), static_cast<rlim_t>(bytes)};
  if (::setrlimit(static_cast<__rlimit_resource>(resource), &most) != 0) ::_exit(125);
}

/// Between fork and exec. Never returns.
[[noreturn]] void become(const ProcessOptions& options, std::vector<char*>& arguments, int input,
                         int out, int err) {
  if (::chdir(options.folder.c_str()) != 0) ::_exit(126);
  ::dup2(input, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  for (const auto& [name, value] : options.environment)
    ::setenv(name.c_str(), value.c_str(), 1);
  // A test may itself run under nohup or in the background of a shell.
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ})
    ::signal(number, SIG_DFL);
  for (const int number : options.ignored_signals)
    ::signal(number, SIG_IGN);
  if (options.closes_input) ::close(STDIN_FILENO);
  limit(RLIMIT_FSIZE, options.file_bytes_max);
  limit(RLIMIT_AS, options.memory_bytes_max);
  ::execv(TROUPE_EXECUTABLE, arguments.data());
  ::_exit(127);
}

} // namespace

TroupeProcess::TroupeProcess(const ProcessOptions& options) {
  out_ = ::memfd_create("out", MFD_CLOEXEC);
  err_ = ::memfd_create("err", MFD_CLOEXEC);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  std::vector<std::string> words = {"troupe"};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  std::vector<char*> arguments;
  for (std::string& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  child_ = ::fork();
  if (child_ == 0) {
    become(options, arguments, options.standard_input < 0 ? nothing : options.standard_input, out_,
           err_);
  }
  ::close(nothing);
}

TroupeProcess::~TroupeProcess() {
  if (!has_ended_) {
    ::kill(child_, SIGKILL);
    reap(true);
  }
  ::close(out_);
  ::close(err_);
}

bool TroupeProcess::reap(bool blocks) {
  if (has_ended_) return true;
  int state = 0;
  rusage used{};
  const pid_t found = ::wait4(child_, &state, blocks ? 0 : WNOHANG, &used);
  if (found == 0) return false;
  has_ended_ = true;
  end_.code = WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
  end_.peak_bytes = std::int64_t{used.ru_maxrss} * 1024;
  return true;
}

bool TroupeProcess::is_running() { return !reap(false); }

void TroupeProcess::signal(int number) {
  if (is_running()) ::kill(child_, number);
}

bool TroupeProcess::wait_for_error_text(const std::string& text) {
  while (read_all(err_).find(text) == std::string::npos) {
    if (!is_running()) return read_all(err_).find(text) != std::string::npos;
    std::this_thread::sleep_for(kLookEvery);
  }
  return true;
}

ProcessEnd TroupeProcess::wait() {
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  while (!reap(false)) {
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "the program ran for more than ten minutes";
      ::kill(child_, SIGKILL);
      reap(true);
      break;
    }
    std::this_thread::sleep_for(kLookEvery);
  }
  end_.out = read_all(out_);
  end_.err = read_all(err_);
  return end_;
}

} // namespace troupe::test
