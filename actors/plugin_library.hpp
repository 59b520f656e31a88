// A library of policies as a file, and as code in this process.
//
// A library is loaded from a private copy under a name of its own: what is mapped is never
// overwritten, and another build under the old path is other code. The copy is gone from the disk
// as soon as it is mapped.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/plugin/plugin_table.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::actors {

/// The bytes that are looked at, named, copied and loaded: all of one moment.
struct LibraryFile {
  std::string path;
  std::string bytes;
  std::string digest; ///< XXH3-128 of the bytes in hexadecimal.
};

/// Errors name the path. Files above 256 MiB are refused.
Result<LibraryFile> read_library(const std::string& path);

/// Loaded code: unloaded when the last owner is gone.
class PluginLibrary {
public:
  /// Runs the constructors of the library and reads its table. Errors name the path. The private
  /// copy is made in $TMPDIR, or in /tmp.
  static Result<std::shared_ptr<const PluginLibrary>> load(const LibraryFile& file);
  PluginLibrary(const PluginLibrary&) = delete;
  PluginLibrary& operator=(const PluginLibrary&) = delete;
  ~PluginLibrary();

  const sched::PluginTable& table() const noexcept { return table_; }
  const std::string& digest() const noexcept { return digest_; }

private:
  PluginLibrary(void* handle, std::string copy, std::string digest);

  void* handle_;
  std::string copy_; ///< The name it was loaded by.
  std::string digest_;
  sched::PluginTable table_;
};

/// Libraries of this process.
struct LibraryCounts {
  std::int64_t loaded = 0; ///< Now.
  std::int64_t pinned =
      0; ///< Stayed in memory after their last use: not built with -fno-gnu-unique.
};
LibraryCounts library_counts() noexcept;

} // namespace troupe::actors
