// The two result files of a job while it runs: locked, appended to, synced, cut.
//
// Others may still move, cut or replace them: before and after each write the path must lead to the
// file that was opened, and that file must be as long as what was written into it. Nothing is
// retried: after a failed write or sync the page cache may have dropped the data, so a second try
// would report what is not on the disk.

#pragma once

#include "actors/app/batch_files.hpp"
#include "schedulers/core/result.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace troupe::app {

enum class ResultFile : std::uint8_t { output, errors };

/// Called with the name of each point around a write. For tests.
using WriteHook = std::function<void(const char* point)>;

/// Output and errors of one job.
///
///   Thread   one owner
///   Owns     both descriptors and their locks
class JobFiles {
public:
  /// Creates what is missing, locks both and syncs their folders.
  ///
  /// Errors: busy (another process holds one), io_error, bad_argument (both are one file).
  static Result<JobFiles> open(const BatchPaths& paths, WriteHook hook);

  JobFiles(JobFiles&& other) noexcept;
  JobFiles& operator=(JobFiles&&) = delete;
  ~JobFiles();

  const std::string& path(ResultFile file) const noexcept { return of(file).path; }
  /// True when this open made the file.
  bool is_made(ResultFile file) const noexcept { return of(file).is_made; }
  /// Bytes on the disk when opened, then as cut and appended.
  std::int64_t size(ResultFile file) const noexcept { return of(file).size; }

  /// Cuts the file to `size` bytes and syncs it. @pre size <= size(file)
  Status cut(ResultFile file, std::int64_t size);

  /// Writes `bytes` at the end. Errors: io_error; mismatch, as check().
  Status append(ResultFile file, std::string_view bytes);

  /// Syncs what was appended since the last sync, then does check().
  Status sync();

  /// Errors: mismatch when a file is not at its path any more, or not as long as what was written.
  Status check() const;

  /// Removes the errors file when it is empty and still ours.
  Status remove_empty_errors();

  /// Removes the files that this open made and that are still empty: a refusal leaves no trace.
  void discard_made() noexcept;

private:
  struct File {
    std::string path;
    int fd = -1;
    std::int64_t size = 0;
    bool is_made = false;
    bool is_dirty = false;
  };

  JobFiles() = default;
  File& of(ResultFile file) noexcept { return files_[static_cast<std::size_t>(file)]; }
  const File& of(ResultFile file) const noexcept { return files_[static_cast<std::size_t>(file)]; }
  void point(const char* name) const {
    if (hook_) {
      hook_(name);
    }
  }
  static Status open_file(File& file);
  Status check_file(const File& file) const;

  std::array<File, 2> files_;
  bool can_go_on_ = false; ///< There is a journal: another run may take up what is here.
  WriteHook hook_;
};

/// Syncs the folder of `path`, so that a file made in it survives a loss of power.
Status sync_folder(const std::string& path);

} // namespace troupe::app
