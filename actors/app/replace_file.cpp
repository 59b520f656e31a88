#include "actors/app/replace_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace troupe::app {

namespace {

/// Writes all of `text` into `path` from its beginning; errno says what went wrong.
bool write_whole(const std::string& path, std::string_view text) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    return false;
  }
  const bool is_written =
      std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
  const int code = errno;
  const bool is_closed = std::fclose(file) == 0;
  if (!is_written) {
    errno = code;
  }
  return is_written && is_closed;
}

} // namespace

Status replace_file(const std::string& path, std::string_view text, const char* what) {
  const auto failed = [&](const char* action) -> Status {
    return {ErrorCode::io_error,
            path + ": cannot " + action + " the " + what + ": " + std::strerror(errno)};
  };
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  if (std::filesystem::exists(found) && !std::filesystem::is_regular_file(found)) {
    return write_whole(path, text) ? Status{} : failed("write");
  }
  // A link keeps leading to the file.
  const std::filesystem::path target = std::filesystem::weakly_canonical(path, error);
  const std::string place = error ? path : target.string();
  const std::string draft = place + ".tmp";
  if (write_whole(draft, text)) {
    if (std::rename(draft.c_str(), place.c_str()) == 0) {
      return {};
    }
  }
  const Status status = failed("write");
  std::remove(draft.c_str());
  return status;
}

} // namespace troupe::app
