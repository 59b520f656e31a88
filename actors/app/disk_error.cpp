#include "actors/app/disk_error.hpp"

#include <cerrno>
#include <cstring>

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
  case EMFILE:
    return ": raise the limit of open files (ulimit -n)";
  case ENFILE:
    return ": the machine has too many open files, wait until it has fewer";
  case EIO:
    return ": look after the disk";
  default:
    return "";
  }
}

} // namespace

std::string disk_error(int code) { return std::string(std::strerror(code)) + advice(code); }

} // namespace troupe::app
