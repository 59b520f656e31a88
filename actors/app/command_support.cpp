// What every command needs to say: messages on standard error.

#include "actors/app/commands.hpp"
#include "actors/app/local_system.hpp"
#include "schedulers/core/printable.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <system_error>

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

int all_printed(int exit_code) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout) return exit_code;
  return fail(kExitFailed, "standard output: the results could not be written completely; is its "
                           "disk full, or its reader gone?");
}

int fail_thrown() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return fail(kExitFailed, "out of memory; raise the limit (ulimit -v), or ask for less: "
                             "kv.memory, fewer ranks, a smaller scenario");
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again)
      return fail(kExitFailed, error.what());
    return fail(kExitFailed, "no room for another thread; raise the limit of processes (ulimit -u) "
                             "or of memory (ulimit -v), or take fewer ranks and threads");
  } catch (const std::exception& error) {
    return fail(kExitFailed, error.what());
  }
}

} // namespace troupe::app
