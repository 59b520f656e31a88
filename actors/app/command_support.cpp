// What every command needs to say: messages on standard error.

#include "actors/app/commands.hpp"
#include "actors/app/local_system.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

namespace troupe::app {

int exit_code_of(const Error& error) noexcept {
  const bool unreadable =
      error.code == ErrorCode::io_error || error.code == ErrorCode::bad_checkpoint ||
      error.code == ErrorCode::unsupported || error.code == ErrorCode::engine_failed;
  return unreadable ? kExitFailed : kExitRefused;
}

bool left_threads() noexcept { return LocalSystem::left_threads(); }

int fail(int exit_code, std::string_view message) {
  // A message of several lines has one cause a line.
  std::size_t begin = 0;
  while (begin <= message.size()) {
    const std::size_t end = std::min(message.find('\n', begin), message.size());
    const std::string line(message.substr(begin, end - begin));
    std::fprintf(stderr, "troupe: %s\n", line.c_str());
    begin = end + 1;
  }
  return exit_code;
}

} // namespace troupe::app
