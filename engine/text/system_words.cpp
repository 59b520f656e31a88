#include "engine/text/system_words.hpp"

#include <cerrno>
#include <cstring>
#include <sys/resource.h>
#include <sys/stat.h>

namespace troupe::text {
namespace {

/// The shortest beginning of `path` that is there and is no folder; empty when there is none.
std::string file_in_the_way(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    struct stat facts {};
    const std::string part = path.substr(0, at);
    if (::stat(part.c_str(), &facts) == 0 && !S_ISDIR(facts.st_mode)) return part;
  }
  return {};
}

} // namespace

std::string system_words(int number) {
  const std::string words = std::strerror(number);
  if (number == ENFILE) return words + ": the machine has no more, wait until it has fewer";
  if (number != EMFILE) return words;
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return words + ": raise the limit (ulimit -n)";
  return words + ": this process may have " + std::to_string(limit.rlim_cur) +
         " open (ulimit -n); raise the limit, as in ulimit -n " +
         std::to_string(limit.rlim_cur < 1024 ? 1024 : 2 * limit.rlim_cur);
}

std::string open_failure(const std::string& path, int number, const std::string& advice) {
  if (number == ENOTDIR) {
    if (const std::string file = file_in_the_way(path); !file.empty()) {
      return path + ": cannot be opened: " + file +
             " is a file, expected a folder; name the folder";
    }
  }
  const std::string begin = path + ": cannot be opened (" + system_words(number) + ")";
  // Nothing is wrong with the file itself.
  if (number == EMFILE || number == ENFILE) return begin + "; run again then";
  return begin + ", expected a file that can be read; " + advice;
}

} // namespace troupe::text
