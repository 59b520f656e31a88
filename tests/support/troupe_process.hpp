// The built executable as a child process: arguments, standard input, environment, signals, end.

#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace troupe::test {

/// How to start it.
struct ProcessOptions {
  std::vector<std::string> arguments; ///< Without the name of the program.
  std::string folder;                 ///< Working directory.
  int standard_input = -1;            ///< Open descriptor, stays the caller's; -1 = /dev/null.
  std::vector<std::pair<std::string, std::string>> environment; ///< Added to the test's own.
  std::vector<int> ignored_signals;                             ///< All others are as at a login.
  std::int64_t file_bytes_max = 0;                              ///< Limit of file sizes; 0 = none.
  std::int64_t memory_bytes_max = 0; ///< Limit of the address space; 0 = none.
  bool closes_input = false;         ///< Descriptor 0 is not open at all.
};

/// How it ended.
struct ProcessEnd {
  int code = -1; ///< Exit code, or minus the signal that killed it.
  std::string out;
  std::string err;
  std::int64_t peak_bytes = 0; ///< Largest resident set.
};

/// One run of the executable. A run longer than ten minutes is killed and fails the test.
class TroupeProcess {
public:
  explicit TroupeProcess(const ProcessOptions& options);
  TroupeProcess(const TroupeProcess&) = delete;
  TroupeProcess& operator=(const TroupeProcess&) = delete;
  ~TroupeProcess(); ///< Kills what still runs.

  /// False when it has ended.
  bool is_running();
  void signal(int number);
  /// Waits until standard error holds `text`; false when it ended before.
  bool wait_for_error_text(const std::string& text);
  ProcessEnd wait();

private:
  bool reap(bool blocks);

  pid_t child_ = -1;
  bool has_ended_ = false;
  ProcessEnd end_;
  int out_ = -1; ///< Nameless files that take what is written.
  int err_ = -1;
};

} // namespace troupe::test
