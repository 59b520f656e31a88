#include "actors/app/job_files.hpp"

#include "actors/app/disk_error.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace troupe::app {

namespace {

Status io_failure(const std::string& path, const char* action) {
  return {ErrorCode::io_error, path + ": cannot " + action + ": " + disk_error(errno)};
}

bool is_at(const std::string& path, const struct stat& opened) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && facts.st_dev == opened.st_dev &&
         facts.st_ino == opened.st_ino;
}

} // namespace

Status sync_folder(const std::string& path) {
  const std::string folder = folder_of(path);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return io_failure(folder, "open the folder");
  }
  // Some network file systems cannot sync a folder and say EINVAL; there is nothing else to do.
  const bool is_failed = ::fsync(fd) != 0 && errno != EINVAL;
  Status status = is_failed ? io_failure(folder, "sync the folder") : Status{};
  ::close(fd);
  return status;
}

JobFiles::JobFiles(JobFiles&& other) noexcept
    : files_(std::move(other.files_)), can_go_on_(other.can_go_on_), hook_(std::move(other.hook_)) {
  for (File& file : other.files_) {
    file.fd = -1;
  }
}

JobFiles::~JobFiles() {
  for (const File& file : files_) {
    if (file.fd >= 0) {
      ::close(file.fd);
    }
  }
}

Status JobFiles::open_file(File& file) {
  // A process that ends may remove its empty errors file between our open and our lock.
  for (int round = 0; round < 10; ++round) {
    file.fd = ::open(file.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    file.is_made = file.fd >= 0;
    if (file.fd < 0 && errno == EEXIST) {
      file.fd = ::open(file.path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    }
    if (file.fd < 0) {
      return io_failure(file.path, "open it for writing");
    }
    if (::flock(file.fd, LOCK_EX | LOCK_NB) != 0) {
      file.is_made = false; // Whoever holds the lock owns the file.
      if (errno != EWOULDBLOCK) {
        return io_failure(file.path, "lock it");
      }
      return {ErrorCode::busy, file.path + ": another process is working on this job; wait for it "
                                           "or stop it first"};
    }
    struct stat facts {};
    if (::fstat(file.fd, &facts) != 0) {
      return io_failure(file.path, "examine it");
    }
    if (is_at(file.path, facts)) {
      file.size = facts.st_size;
      return {};
    }
    ::close(std::exchange(file.fd, -1));
  }
  return {ErrorCode::busy, file.path + ": it is being replaced again and again; stop who does it"};
}

Result<JobFiles> JobFiles::open(const BatchPaths& paths, WriteHook hook) {
  JobFiles files;
  files.hook_ = std::move(hook);
  files.can_go_on_ = !paths.journal.empty();
  files.of(ResultFile::output).path = paths.output;
  files.of(ResultFile::errors).path = paths.errors;
  for (File& file : files.files_) {
    Status status = open_file(file);
    if (status) {
      status = sync_folder(file.path);
    }
    if (!status) {
      files.discard_made();
      return status.error();
    }
  }
  return files;
}

Status JobFiles::cut(ResultFile which, std::int64_t size) {
  File& file = of(which);
  TROUPE_CHECK(size <= file.size, "cutting does not grow a file");
  if (size == file.size) {
    return {};
  }
  point("before cut");
  if (::ftruncate(file.fd, size) != 0) {
    return io_failure(file.path, "cut it");
  }
  if (::fsync(file.fd) != 0) {
    return io_failure(file.path, "sync it");
  }
  file.size = size;
  point("after cut");
  return {};
}

Status JobFiles::append(ResultFile which, std::string_view bytes) {
  File& file = of(which);
  if (bytes.empty()) {
    return {};
  }
  point(which == ResultFile::output ? "before output" : "before errors");
  if (Status status = check_file(file); !status) {
    return status;
  }
  file.is_dirty = true;
  // With a hook the write comes in two halves, so that a torn line can be made.
  std::size_t part = hook_ ? bytes.size() / 2 : bytes.size();
  while (!bytes.empty()) {
    const std::size_t wanted = part == 0 || part > bytes.size() ? bytes.size() : part;
    const ssize_t got = ::pwrite(file.fd, bytes.data(), wanted, file.size);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return io_failure(file.path, "write");
    }
    file.size += got;
    bytes.remove_prefix(static_cast<std::size_t>(got));
    part = 0;
    if (!bytes.empty()) {
      point(which == ResultFile::output ? "in output" : "in errors");
    }
  }
  point(which == ResultFile::output ? "after output" : "after errors");
  return {};
}

Status JobFiles::sync() {
  for (File& file : files_) {
    if (!file.is_dirty) {
      continue;
    }
    point("before sync");
    if (::fsync(file.fd) != 0) {
      return io_failure(file.path, "sync it");
    }
    file.is_dirty = false;
    point("after sync");
  }
  return check();
}

Status JobFiles::check() const {
  for (const File& file : files_) {
    if (Status status = check_file(file); !status) {
      return status;
    }
  }
  return {};
}

Status JobFiles::check_file(const File& file) const {
  struct stat opened {};
  if (::fstat(file.fd, &opened) != 0) {
    return io_failure(file.path, "examine it");
  }
  const auto mismatch = [&](const std::string& what, const char* then) -> Status {
    return {ErrorCode::mismatch, file.path + ": " + what + " while the job runs, which wrote " +
                                     std::to_string(file.size) + " bytes" +
                                     (can_go_on_ ? std::string("; ") + then : std::string())};
  };
  struct stat found {};
  const bool is_there = ::stat(file.path.c_str(), &found) == 0;
  if (!is_there && errno != ENOENT && errno != ENOTDIR) {
    return io_failure(file.path, "examine it");
  }
  const char* put_back = "put it back and give the same command, or begin anew with --restart";
  if (!is_there) {
    return mismatch("it was removed or moved away",
                    file.size == 0 ? "the same command goes on" : put_back);
  }
  if (found.st_dev != opened.st_dev || found.st_ino != opened.st_ino) {
    return mismatch("another file of " + std::to_string(found.st_size) + " bytes took its place",
                    put_back);
  }
  if (opened.st_size == file.size) {
    return {};
  }
  return mismatch("somebody made it " + std::to_string(opened.st_size) + " bytes long",
                  opened.st_size < file.size
                      ? put_back
                      : "stop who writes there; the same command cuts it off and goes on");
}

Status JobFiles::remove_empty_errors() {
  const File& file = of(ResultFile::errors);
  if (file.size != 0) {
    return {};
  }
  if (Status status = check_file(file); !status) {
    return status;
  }
  if (::unlink(file.path.c_str()) != 0 && errno != ENOENT) {
    return io_failure(file.path, "remove the empty file");
  }
  return sync_folder(file.path);
}

void JobFiles::discard_made() noexcept {
  for (File& file : files_) {
    if (file.is_made && file.size == 0) {
      ::unlink(file.path.c_str());
    }
    file.is_made = false;
  }
}

} // namespace troupe::app
