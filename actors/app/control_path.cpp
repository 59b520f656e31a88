#include "actors/app/control_path.hpp"

#include "actors/app/batch_files.hpp"
#include "actors/digest.hpp"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

constexpr int kBacklog = 16;

/// The folder of short paths: below the user's run-time folder, or else /tmp.
std::string short_folder() {
  const char* given = std::getenv("XDG_RUNTIME_DIR");
  const std::string base = given != nullptr && *given == '/' ? given : "/tmp";
  const std::string folder = base + "/troupe-" + std::to_string(::getuid());
  constexpr std::size_t kNameBytes = 40; // "/", 32 digits, ".sock".
  return folder.size() + kNameBytes < sizeof(sockaddr_un::sun_path)
             ? folder
             : "/tmp/troupe-" + std::to_string(::getuid());
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  return address;
}

Error failure(const std::string& path, const std::string& what) {
  return {ErrorCode::io_error, path + ": the control socket cannot be made: " + what};
}

Error system_failure(const std::string& path, const char* action) {
  return failure(path, std::string(action) + " (" + std::strerror(errno) + ")");
}

/// A folder of short paths is shared by nobody: others could put their own socket there.
Status make_private_folder(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  if (folder != short_folder()) return {};
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return system_failure(path, "no folder");
  }
  struct stat facts {};
  const bool is_own = ::lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
                      facts.st_uid == ::geteuid() && (facts.st_mode & 077U) == 0;
  if (is_own) return {};
  return failure(path, "the folder " + folder + " belongs to somebody else or is open to others");
}

/// Holds the folder of a path against other processes that take a place in it.
class FolderLock {
public:
  explicit FolderLock(const std::string& path)
      : folder_(::open(fs::path(path).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    constexpr int kTries = 100;
    constexpr std::chrono::milliseconds kPause{10};
    for (int i = 0; folder_ >= 0 && i < kTries && ::flock(folder_, LOCK_EX | LOCK_NB) != 0; ++i)
      std::this_thread::sleep_for(kPause);
  }
  ~FolderLock() {
    if (folder_ >= 0) ::close(folder_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

private:
  int folder_;
};

/// Takes a socket that nobody listens at away. Whatever else stands there stays.
Status clear_place(const std::string& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) {
    return errno == ENOENT ? Status{} : Status{system_failure(path, "the place cannot be seen")};
  }
  if (!S_ISSOCK(facts.st_mode)) {
    return failure(path, "a file that is no socket stands there; move it, or set control.socket");
  }
  const int other = connect_control(path);
  if (other >= 0) {
    ::close(other);
    return {ErrorCode::busy, path + ": another process serves this control socket; set "
                                    "control.socket to a path of its own"};
  }
  if (errno != ECONNREFUSED) return system_failure(path, "the socket there does not answer");
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return system_failure(path, "the socket of a dead process cannot be removed");
}

} // namespace

std::string control_path(const std::string& wanted) {
  const std::string path = fs::absolute(wanted).lexically_normal().string();
  if (path.size() < sizeof(sockaddr_un::sun_path)) return path;
  return short_folder() + "/" + hex(digest_of(std::string_view(path))) + ".sock";
}

int connect_control(const std::string& path) {
  const sockaddr_un address = address_of(path);
  const int made = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (made < 0) return -1;
  if (::connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return made;
  }
  const int error = errno;
  ::close(made);
  errno = error;
  return -1;
}

Result<ControlListener> ControlListener::open(const std::string& path) {
  ControlListener out;
  out.path_ = path;
  if (path.size() >= sizeof(sockaddr_un::sun_path)) return failure(path, "the path is too long");
  if (Status good = make_private_folder(path); !good.ok()) return good.error();
  const FolderLock lock(path);
  if (Status good = clear_place(path); !good.ok()) return good.error();
  out.socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (out.socket_ < 0) return system_failure(path, "no socket");
  // The mode of the socket becomes that of the path: at no moment can others connect.
  const sockaddr_un address = address_of(path);
  if (::fchmod(out.socket_, 0600) != 0 ||
      ::bind(out.socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return system_failure(path, "the path cannot be taken");
  }
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) == 0) {
    out.device_ = facts.st_dev;
    out.inode_ = facts.st_ino;
  }
  if (::listen(out.socket_, kBacklog) != 0) return system_failure(path, "it cannot listen");
  return Result<ControlListener>(std::move(out));
}

ControlListener::ControlListener(ControlListener&& other) noexcept
    : path_(std::move(other.path_)), socket_(std::exchange(other.socket_, -1)),
      device_(other.device_), inode_(std::exchange(other.inode_, 0)) {}

ControlListener::~ControlListener() {
  struct stat facts {};
  const bool is_own = inode_ != 0 && ::lstat(path_.c_str(), &facts) == 0 &&
                      facts.st_dev == device_ && facts.st_ino == inode_;
  if (is_own) ::unlink(path_.c_str());
  if (socket_ >= 0) ::close(socket_);
}

} // namespace troupe::app
