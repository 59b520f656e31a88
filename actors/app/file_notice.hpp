// When a file on disk may have changed, and whether somebody is still writing it.

#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace troupe::app {

/// What tells one content of a path from another without reading it.
struct FileStamp {
  bool exists = false;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t bytes = 0;
  std::int64_t changed_ns = 0;
  auto operator<=>(const FileStamp&) const = default;
};

/// Of what the path leads to, links followed.
FileStamp stamp_of(const std::string& path);

/// Whether a process has the file open for writing; none where that cannot be known: on network
/// file systems, and for files of somebody else.
std::optional<bool> is_being_written(const std::string& path);

/// Notices of the kernel about a path: its folder, the folder of what it leads to, and that file.
///
///   Thread   one owner
///   Errors   without notices `descriptor` is -1, and the path has to be looked at from time to
///   time
class FileNotice {
public:
  explicit FileNotice(std::string path);
  ~FileNotice();
  FileNotice(const FileNotice&) = delete;
  FileNotice& operator=(const FileNotice&) = delete;

  /// Readable when something happened.
  int descriptor() const noexcept { return inotify_; }
  /// Takes what has come. True when there was something.
  bool take();
  /// Looks where the path leads now; after every change.
  void follow();

private:
  std::string path_;
  int inotify_ = -1;
  std::set<int> watches_; ///< Of where the path leads now.
};

} // namespace troupe::app
