#include "engine/text/text_file.hpp"

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
  if (facts.st_size > bytes_max) {
    return {ErrorCode::bad_checkpoint, path + ": has " + std::to_string(facts.st_size) +
                                           " bytes, expected at most " + std::to_string(bytes_max) +
                                           "; is it the right file?"};
  }
  std::string out(static_cast<std::size_t>(facts.st_size), '\0');
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::read(file.number, out.data() + done, out.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_failure(path, "read");
    if (got == 0) break; // Cut meanwhile: its reader says what is missing.
    done += static_cast<std::size_t>(got);
  }
  out.resize(done);
  return out;
}

} // namespace troupe::text
