#include "actors/app/file_notice.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>
#include <utility>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

/// Of folders: entries that come and go, and writers that close. Not each write of a neighbour.
constexpr std::uint32_t kFolderEvents =
    IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CLOSE_WRITE | IN_ATTRIB | IN_ONLYDIR;
constexpr std::uint32_t kFileEvents = IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE_SELF;

/// Whether leases of this file's system speak of other machines, or of nobody.
bool is_on_network(int file) {
  constexpr std::array<std::uint32_t, 5> kSystems = {0x6969,      // nfs
                                                     0xFF534D42,  // cifs
                                                     0xFE534D42,  // smb2
                                                     0x65735546,  // fuse
                                                     0x01021997}; // 9p
  struct statfs facts {};
  if (::fstatfs(file, &facts) != 0) return true;
  const auto type = static_cast<std::uint32_t>(facts.f_type);
  return std::find(kSystems.begin(), kSystems.end(), type) != kSystems.end();
}

} // namespace

FileStamp stamp_of(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return {};
  constexpr std::int64_t kNsPerS = 1'000'000'000;
  return {true, facts.st_dev, facts.st_ino, facts.st_size,
          facts.st_mtim.tv_sec * kNsPerS + facts.st_mtim.tv_nsec};
}

std::optional<bool> is_being_written(const std::string& path) {
  // A read lease is refused while anybody has the file open for writing.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  // A writer that comes in this moment waits until the file is closed below; the signal that would
  // tell of it ends a process by default, so it is one that does nothing.
  ::fcntl(file, F_SETSIG, SIGURG);
  std::optional<bool> written;
  if (!is_on_network(file)) {
    if (::fcntl(file, F_SETLEASE, F_RDLCK) == 0) {
      ::fcntl(file, F_SETLEASE, F_UNLCK);
      written = false;
    } else if (errno == EAGAIN) {
      written = true;
    }
  }
  ::close(file);
  return written;
}

FileNotice::FileNotice(std::string path)
    : path_(std::move(path)), inotify_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  follow();
}

FileNotice::~FileNotice() {
  if (inotify_ >= 0) ::close(inotify_);
}

bool FileNotice::take() {
  std::array<char, 4096> events{};
  bool some = false;
  while (inotify_ >= 0 && ::read(inotify_, events.data(), events.size()) > 0)
    some = true;
  return some;
}

void FileNotice::follow() {
  if (inotify_ < 0) return;
  std::set<int> watches;
  const auto watch = [&](const fs::path& path, std::uint32_t events) {
    const int added = ::inotify_add_watch(inotify_, path.c_str(), events);
    if (added >= 0) watches.insert(added);
  };
  std::error_code error;
  const fs::path real = fs::canonical(path_, error);
  watch(fs::path(path_).parent_path(), kFolderEvents);
  if (!error) {
    watch(real.parent_path(), kFolderEvents);
    watch(real, kFileEvents);
  }
  // A watch of what is gone has gone with it, and cannot be removed; that is no matter.
  for (const int old : watches_) {
    if (!watches.contains(old)) ::inotify_rm_watch(inotify_, old);
  }
  watches_ = std::move(watches);
}

} // namespace troupe::app
