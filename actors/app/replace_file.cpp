#include "actors/app/replace_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace troupe::app {

Status replace_file(const std::string& path, std::string_view text, const char* what) {
  const std::string draft = path + ".tmp";
  const auto failed = [&](const char* action) -> Status {
    const int code = errno;
    std::remove(draft.c_str());
    return {ErrorCode::io_error,
            path + ": cannot " + action + " the " + what + ": " + std::strerror(code)};
  };
  std::FILE* file = std::fopen(draft.c_str(), "wb");
  if (file == nullptr) {
    return failed("create");
  }
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int code = errno;
  if (std::fclose(file) != 0) {
    return failed("write");
  }
  if (!is_written) {
    errno = code;
    return failed("write");
  }
  if (std::rename(draft.c_str(), path.c_str()) != 0) {
    return failed("rename");
  }
  return {};
}

} // namespace troupe::app
