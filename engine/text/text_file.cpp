#include "engine/text/text_file.hpp"

#include "engine/text/read_to_end.hpp"
#include "engine/text/system_words.hpp"

#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe::text {
namespace {

Error io_failure(const std::string& path, const char* action) {
  return {ErrorCode::io_error, path + ": cannot be " + action + " (" + system_words(errno) +
                                   "), expected a file that can be read; put it there or name "
                                   "another"};
}

/// Closes a descriptor at the end of a block.
struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

/// With the size where it is known, as the file is only read to `bytes_max`.
Error too_large(const std::string& path, const std::string& found, std::int64_t bytes_max) {
  return {ErrorCode::bad_checkpoint, path + ": has " + found + " bytes, expected at most " +
                                         std::to_string(bytes_max) + "; is it the right file?"};
}

} // namespace

Result<std::string> read_text_file(const std::string& path, std::int64_t bytes_max) {
  // Without O_NONBLOCK, opening a pipe that nobody writes would wait for ever.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) {
    return {errno == ENOENT ? ErrorCode::not_found : ErrorCode::io_error,
            open_failure(path, errno, "put it there or name another")};
  }
  struct stat facts {};
  if (::fstat(file.number, &facts) != 0) return io_failure(path, "examined");
  if (!S_ISREG(facts.st_mode)) {
    return {ErrorCode::io_error,
            path + ": is " + (S_ISDIR(facts.st_mode) ? "a folder" : "a pipe, socket or device") +
                ", expected a regular file; put the file there"};
  }
  if (facts.st_size > bytes_max) return too_large(path, std::to_string(facts.st_size), bytes_max);
  std::string out; // Cut meanwhile: its reader says what is missing.
  if (!read_to_end(file.number, facts.st_size, bytes_max, out)) return io_failure(path, "read");
  if (static_cast<std::int64_t>(out.size()) > bytes_max) {
    return too_large(path, "more than " + std::to_string(bytes_max), bytes_max);
  }
  return out;
}

} // namespace troupe::text
