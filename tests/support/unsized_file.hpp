// A regular file that is told to have 0 bytes and holds some, as all under /proc are.

#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <unistd.h>

namespace troupe::test {

/// The name of this thread, which the system shows as a file. At most 15 bytes; a newline follows.
class UnsizedFile {
public:
  explicit UnsizedFile(const std::string& text) {
    if (text.size() > 15) throw std::runtime_error("a thread has no name as long as " + text);
    ::prctl(PR_GET_NAME, before_.data());
    ::prctl(PR_SET_NAME, text.c_str());
  }
  UnsizedFile(const UnsizedFile&) = delete;
  UnsizedFile& operator=(const UnsizedFile&) = delete;
  ~UnsizedFile() { ::prctl(PR_SET_NAME, before_.data()); }

  /// Also for other processes.
  std::string path() const {
    return "/proc/" + std::to_string(::getpid()) + "/task/" + std::to_string(::gettid()) + "/comm";
  }

private:
  std::array<char, 16> before_{};
};

} // namespace troupe::test
