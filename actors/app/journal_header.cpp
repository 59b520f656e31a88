#include "actors/app/journal_header.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe::app {

namespace {

// Source: "Database File Format" of the SQLite documentation, section 1.3.
constexpr std::size_t kHeaderBytes = 100;
constexpr std::string_view kMagic("SQLite format 3\0", 16);
constexpr std::size_t kWriteFormatAt = 18; // And the read format behind it.
constexpr std::size_t kUserVersionAt = 60;
constexpr std::size_t kApplicationIdAt = 68;

using Header = std::array<unsigned char, kHeaderBytes>;

std::int64_t number_at(const Header& header, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = value << 8U | header.at(at + i);
  return static_cast<std::int32_t>(value);
}

bool has_hot_journal(const std::string& path) {
  struct stat facts {};
  return ::stat((path + "-journal").c_str(), &facts) == 0 && facts.st_size > 0;
}

} // namespace

Error foreign_journal(const std::string& path) {
  return {ErrorCode::mismatch, path + ": found a file that is no journal of troupe, expected a "
                                      "journal or nothing; move it away, or give the job another "
                                      "output"};
}

Error damaged_journal(const std::string& path, const std::string& what) {
  return {ErrorCode::mismatch,
          path + ": found a damaged journal (" + what +
              "), expected one that can be read; put back a copy, or move it away together with "
              "the output and begin anew"};
}

Error newer_journal(const std::string& path, std::int64_t version) {
  return {ErrorCode::mismatch, path + ": found a journal of version " + std::to_string(version) +
                                   ", written by a newer troupe, expected at most " +
                                   std::to_string(kJournalVersion) + "; go on with that troupe"};
}

Status check_journal_header(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    if (errno == ENOENT) return {};
    return {ErrorCode::io_error, path + ": cannot be opened (" + std::strerror(errno) +
                                     "), expected a journal that can be read and written; give "
                                     "its folder to this user, or the job another output"};
  }
  struct stat facts {};
  const bool is_file = ::fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
  Header header{};
  const ssize_t got = is_file ? ::pread(fd, header.data(), header.size(), 0) : -1;
  ::close(fd);
  if (!is_file) return foreign_journal(path);
  if (got < 0) {
    return {ErrorCode::io_error, path + ": cannot be read (" + std::strerror(errno) +
                                     "), expected a journal; look after the disk"};
  }
  if (got == 0 || has_hot_journal(path)) return {};
  const bool is_database = got == static_cast<ssize_t>(kHeaderBytes) &&
                           std::memcmp(header.data(), kMagic.data(), kMagic.size()) == 0;
  if (!is_database || number_at(header, kApplicationIdAt) != kJournalApplicationId) {
    return foreign_journal(path);
  }
  const std::int64_t version = number_at(header, kUserVersionAt);
  const auto is_format = [&](std::size_t at) { return header.at(at) == 1 || header.at(at) == 2; };
  if (version < 0 || !is_format(kWriteFormatAt) || !is_format(kWriteFormatAt + 1)) {
    return damaged_journal(path, "its header holds numbers that no journal has");
  }
  if (version > kJournalVersion) return newer_journal(path, version);
  return {};
}

} // namespace troupe::app
