#include "engine/text/text_file.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace troupe::text {

Result<std::string> read_text_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (!file) {
    const int code = errno;
    return {code == ENOENT ? ErrorCode::not_found : ErrorCode::io_error,
            path + ": " + std::strerror(code)};
  }
  std::string out;
  std::array<char, std::size_t{1} << 16> buffer{};
  std::size_t count = 0;
  while ((count = std::fread(buffer.data(), 1, buffer.size(), file.get())) > 0) {
    out.append(buffer.data(), count);
  }
  if (std::ferror(file.get()) != 0)
    return {ErrorCode::io_error, path + ": " + std::strerror(errno)};
  return out;
}

} // namespace troupe::text
