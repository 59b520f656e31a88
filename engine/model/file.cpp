// Regular files only: every open is non-blocking and checked by fstat before use.

#include "engine/model/file.hpp"

#include "engine/text/read_to_end.hpp"
#include "engine/text/system_words.hpp"
#include "schedulers/core/printable.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace troupe::engine {

using text::system_words;

FileMap::FileMap(FileMap&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

FileMap& FileMap::operator=(FileMap&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

FileMap::~FileMap() {
  if (!bytes_.empty()) {
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
}

InputFile::InputFile(InputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)),
      size_bytes_(other.size_bytes_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Result<InputFile> InputFile::open(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe that nobody writes would wait for ever.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const int number = errno;
    const bool absent = number == ENOENT || number == ENOTDIR;
    return Error{absent ? ErrorCode::not_found : ErrorCode::io_error,
                 text::open_failure(path, number, "fetch it again or name another")};
  }
  InputFile file(descriptor, path, 0);
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) {
    return Error{ErrorCode::io_error, path + ": cannot be examined (" + system_words(errno) + ")"};
  }
  if (!S_ISREG(facts.st_mode)) {
    const char* kind = S_ISDIR(facts.st_mode) ? "a folder" : "a pipe, socket or device";
    return Error{ErrorCode::io_error,
                 path + ": is " + kind + ", expected a regular file; put the file there"};
  }
  file.size_bytes_ = facts.st_size;
  return file;
}

Status InputFile::read_at(std::int64_t offset_bytes, std::span<std::byte> into) const {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = ::pread(descriptor_, into.data() + done, into.size() - done,
                                offset_bytes + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return {ErrorCode::io_error, path_ + ": cannot be read (" + system_words(errno) + ")"};
    }
    if (got == 0) {
      return {ErrorCode::io_error,
              path_ + ": ends at byte " +
                  std::to_string(offset_bytes + static_cast<std::int64_t>(done)) + ", expected " +
                  std::to_string(into.size() - done) + " bytes more; was it cut while being read?"};
    }
    done += static_cast<std::size_t>(got);
  }
  return {};
}

Result<FileMap> InputFile::map() const {
  FileMap map;
  if (size_bytes_ == 0) return map;
  const auto size = static_cast<std::size_t>(size_bytes_);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor_, 0);
  if (address == MAP_FAILED) {
    return Error{ErrorCode::io_error, path_ + ": cannot be mapped (" + system_words(errno) + ")"};
  }
  map.bytes_ = {static_cast<const std::byte*>(address), size};
  return map;
}

bool InputFile::holds_more_than_told() const {
  char byte = 0;
  return ::pread(descriptor_, &byte, 1, size_bytes_) == 1;
}

Result<std::string> InputFile::read_all(std::int64_t bytes_max) const {
  const auto too_large = [&](const std::string& found) {
    return Error{ErrorCode::bad_checkpoint, path_ + ": has " + found + " bytes, expected at most " +
                                                std::to_string(bytes_max) +
                                                "; it is damaged, fetch it again"};
  };
  if (size_bytes_ > bytes_max) return too_large(std::to_string(size_bytes_));
  std::string bytes; // Cut meanwhile: its reader says what is missing.
  if (::lseek(descriptor_, 0, SEEK_SET) < 0 ||
      !text::read_to_end(descriptor_, size_bytes_, bytes_max, bytes)) {
    return Error{ErrorCode::io_error, path_ + ": cannot be read (" + system_words(errno) + ")"};
  }
  if (std::ssize(bytes) > bytes_max) return too_large("more than " + std::to_string(bytes_max));
  return bytes;
}

Result<std::string> read_text_file(const std::string& path, std::int64_t bytes_max) {
  auto file = InputFile::open(path);
  if (!file) return file.error();
  return file->read_all(bytes_max);
}

bool path_exists(const std::string& path) {
  struct stat facts {};
  // What may not be looked at is there: opening it says why it cannot be used.
  return ::lstat(path.c_str(), &facts) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

std::string in_quotes(std::string_view text) {
  return std::string(1, '\'').append(printable(text)).append(1, '\'');
}

} // namespace troupe::engine
