// What every command needs to say: messages on standard error.

#include "actors/app/commands.hpp"
#include "actors/app/local_system.hpp"
#include "schedulers/core/printable.hpp"

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

std::string with_short_words(std::string message, const std::vector<std::string>& words) {
  for (const std::string& given : words) {
    for (const std::string& word : {given, given.substr(given.find('=') + 1)}) {
      if (word.size() <= kShownBytesMax) continue;
      const std::string shown = printable(word);
      for (std::size_t at = message.find(word); at != std::string::npos;
           at = message.find(word, at + shown.size()))
        message.replace(at, word.size(), shown);
    }
  }
  return message;
}

int fail(int exit_code, std::string_view message) {
  // A message of several lines has one cause a line.
  std::size_t begin = 0;
  while (begin <= message.size()) {
    const std::size_t end = std::min(message.find('\n', begin), message.size());
    const std::string line = message_line(message.substr(begin, end - begin));
    std::fprintf(stderr, "troupe: %s\n", line.c_str());
    begin = end + 1;
  }
  return exit_code;
}

} // namespace troupe::app
