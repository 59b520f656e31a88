// A library to preload: the process kills itself at its n-th write point, TROUPE_KILL_AT_WRITE=n.
//
// A point is a write, truncation, sync, rename or removal of a regular file through the C library;
// SQLite's count too. A write has two points: before it, and after half of its bytes. Standard
// streams do not count. Buffered streams write inside the C library and are not seen.

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

namespace {

std::atomic<long> points{0};

long fatal_point() {
  static const long point = [] {
    const char* given = std::getenv("TROUPE_KILL_AT_WRITE");
    return given == nullptr ? 0L : std::strtol(given, nullptr, 10);
  }();
  return point;
}

/// True when this point is the one.
bool is_reached() { return ++points == fatal_point(); }

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;)
    ::pause();
}

void point() {
  if (is_reached()) die();
}

bool counts(int fd) {
  struct stat facts {};
  return fd > STDERR_FILENO && ::fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// `write_part(bytes)` performs the call for so many bytes.
template <class WritePart>
ssize_t written(int fd, std::size_t bytes, const WritePart& write_part) {
  if (!counts(fd)) return write_part(bytes);
  point();
  if (is_reached()) {
    write_part(bytes / 2);
    die();
  }
  return write_part(bytes);
}

} // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t bytes) {
  static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  return written(fd, bytes, [&](size_t part) { return real(fd, data, part); });
}

ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  static auto* const real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return written(fd, bytes, [&](size_t part) { return real(fd, data, part, offset); });
}

ssize_t pwrite64(int fd, const void* data, size_t bytes, off64_t offset) {
  static auto* const real = next<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  return written(fd, bytes, [&](size_t part) { return real(fd, data, part, offset); });
}

int ftruncate(int fd, off_t size) noexcept {
  static auto* const real = next<int(int, off_t)>("ftruncate");
  if (counts(fd)) point();
  return real(fd, size);
}

int ftruncate64(int fd, off64_t size) noexcept {
  static auto* const real = next<int(int, off64_t)>("ftruncate64");
  if (counts(fd)) point();
  return real(fd, size);
}

int fsync(int fd) {
  static auto* const real = next<int(int)>("fsync");
  if (counts(fd)) point();
  return real(fd);
}

int fdatasync(int fd) {
  static auto* const real = next<int(int)>("fdatasync");
  if (counts(fd)) point();
  return real(fd);
}

int unlink(const char* path) noexcept {
  static auto* const real = next<int(const char*)>("unlink");
  point();
  return real(path);
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = next<int(const char*, const char*)>("rename");
  point();
  return real(from, to);
}
}
