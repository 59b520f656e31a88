#include "actors/app/replace_file.hpp"

#include "actors/app/disk_error.hpp"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe::app {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLinksMax = 40;
constexpr std::chrono::milliseconds kPatience{1000};

/// Waits until `fd` takes bytes again; false, with errno, when it does not before `deadline`.
bool wait_writable(int fd, Clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd waiter{fd, POLLOUT, 0};
  const int ready = left > 0 ? ::poll(&waiter, 1, static_cast<int>(left)) : 0;
  if (ready == 0) errno = ETIMEDOUT;
  return ready > 0 || (ready < 0 && errno == EINTR);
}

bool write_all(int fd, std::string_view text) {
  const Clock::time_point deadline = Clock::now() + kPatience;
  while (!text.empty()) {
    const ssize_t got = ::write(fd, text.data(), text.size());
    if (got > 0) {
      text.remove_prefix(static_cast<std::size_t>(got));
    } else if (got < 0 && errno == EAGAIN) {
      if (!wait_writable(fd, deadline)) return false;
    } else if (got == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

/// Writes all of `text` into `path` from its beginning; errno says what went wrong.
///
/// @param is_draft  it must be a file of its own, no link and no pipe
bool write_whole(const std::string& path, std::string_view text, bool is_draft) {
  // O_NONBLOCK: opening a pipe that nobody reads fails at once.
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  const int fd = ::open(path.c_str(), flags | (is_draft ? O_NOFOLLOW : 0), 0666);
  if (fd < 0) return false;
  struct stat facts {};
  const bool is_fit = !is_draft || (::fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode));
  if (!is_fit) errno = EEXIST;
  const bool is_written = is_fit && write_all(fd, text);
  const int code = errno;
  const bool is_closed = ::close(fd) == 0;
  if (!is_written) errno = code;
  return is_written && is_closed;
}

std::string reason(int code) {
  if (code == ENXIO) return "it is a pipe that nobody reads: start its reader first";
  if (code == ETIMEDOUT) return "it is a pipe whose reader does not read";
  return disk_error(code);
}

} // namespace

std::string link_target(const std::string& path) {
  std::filesystem::path at = path;
  std::error_code error;
  for (int links = 0; links < kLinksMax && std::filesystem::is_symlink(at, error); ++links) {
    const std::filesystem::path next = std::filesystem::read_symlink(at, error);
    if (error) break;
    at = next.is_absolute() ? next : at.parent_path() / next;
  }
  return at.string();
}

Status check_replaceable(const std::string& path, const char* what) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return {};
  const char* found = S_ISDIR(facts.st_mode)    ? "a folder"
                      : S_ISSOCK(facts.st_mode) ? "a socket"
                      : S_ISBLK(facts.st_mode)  ? "a disk"
                                                : nullptr;
  if (found == nullptr) return {};
  return {ErrorCode::bad_argument, path + ": the " + what + " cannot be written: found " + found +
                                       ", expected a file or a new name; give the path of a file"};
}

Status replace_file(const std::string& path, std::string_view text, const char* what) {
  const auto failed = [&](const std::string& place, int code) -> Status {
    return {ErrorCode::io_error, place + ": cannot write the " + what + ": " + reason(code)};
  };
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  if (std::filesystem::exists(found) && !std::filesystem::is_regular_file(found)) {
    return write_whole(path, text, false) ? Status{} : failed(path, errno);
  }
  const std::string place = link_target(path); // A link keeps leading to the file.
  const std::string draft = place + ".tmp";
  if (!write_whole(draft, text, true)) {
    const int code = errno;
    // What stands there is not ours to remove.
    if (code == EEXIST || code == ELOOP || code == ENXIO || code == EISDIR) {
      return {ErrorCode::io_error,
              path + ": cannot write the " + what + ": " + draft + " is no file; move it away"};
    }
    std::remove(draft.c_str());
    return failed(path, code);
  }
  if (std::rename(draft.c_str(), place.c_str()) == 0) return {};
  const int code = errno;
  std::remove(draft.c_str());
  return failed(path, code);
}

} // namespace troupe::app
