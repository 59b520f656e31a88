#include "actors/app/disk_error.hpp"

#include "engine/text/system_words.hpp"

#include <cerrno>

namespace troupe::app {

namespace {

const char* advice(int code) noexcept {
  switch (code) {
  case ENOSPC:
    return ": make room there, for bytes and for files (df -h, df -i)";
  case EDQUOT:
    return ": make room or raise the quota";
  case EFBIG:
    return ": raise the limit of file sizes (ulimit -f)";
  case EIO:
    return ": look after the disk";
  default:
    return "";
  }
}

} // namespace

std::string disk_error(int code) { return text::system_words(code) + advice(code); }

} // namespace troupe::app
