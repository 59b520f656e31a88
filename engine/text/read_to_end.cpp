#include "engine/text/read_to_end.hpp"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

namespace troupe::text {

bool read_to_end(int descriptor, std::int64_t told_bytes, std::int64_t bytes_max,
                 std::string& bytes) {
  constexpr std::int64_t kPieceBytes = 64 << 10;
  std::size_t done = bytes.size();
  // One byte more than is told, so that the end is met without another copy.
  std::int64_t piece = told_bytes > 0 ? told_bytes + 1 : kPieceBytes;
  while (static_cast<std::int64_t>(done) <= bytes_max) {
    if (done == bytes.size()) {
      const std::int64_t room = bytes_max + 1 - static_cast<std::int64_t>(done);
      bytes.resize(done + static_cast<std::size_t>(std::min(room, piece)));
      piece = std::max(kPieceBytes, static_cast<std::int64_t>(bytes.size()));
    }
    const ssize_t got = ::read(descriptor, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return true;
}

} // namespace troupe::text
