// Regular files opened for reading: whole small texts, parts of big files, read-only maps.
//
// Anything that is not a regular file (pipe, device, folder) is refused before a byte is read, so
// that a hostile checkpoint can neither block nor feed endless data.

#pragma once

#include "schedulers/core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troupe::engine {

/// A read-only map of a whole file. Owns the map; moving keeps addresses.
class FileMap {
public:
  FileMap() = default;
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;
  FileMap(FileMap&& other) noexcept;
  FileMap& operator=(FileMap&& other) noexcept;
  ~FileMap();

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

private:
  friend class InputFile;
  std::span<const std::byte> bytes_;
};

/// An open regular file. Owns the descriptor.
class InputFile {
public:
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  ///   Errors   not_found, io_error; both name the file
  static Result<InputFile> open(const std::string& path);

  const std::string& path() const noexcept { return path_; }
  /// As told when it was opened: 0 for a file under /proc, whatever it holds.
  std::int64_t size_bytes() const noexcept { return size_bytes_; }

  /// Whether more can be read than size_bytes().
  bool holds_more_than_told() const;

  /// Fills `into` from `offset_bytes`; fewer bytes than that are an error.
  Status read_at(std::int64_t offset_bytes, std::span<std::byte> into) const;

  /// Maps the whole file. An empty file gives an empty map.
  Result<FileMap> map() const;

  /// What is read to the end; a file that holds more than `bytes_max` is refused with both sizes.
  Result<std::string> read_all(std::int64_t bytes_max) const;

private:
  InputFile(int descriptor, std::string path, std::int64_t size_bytes)
      : descriptor_(descriptor), path_(std::move(path)), size_bytes_(size_bytes) {}

  int descriptor_ = -1;
  std::string path_;
  std::int64_t size_bytes_ = 0;
};

/// The whole file as text; one larger than `bytes_max` is refused with both sizes.
Result<std::string> read_text_file(const std::string& path, std::int64_t bytes_max);

/// True when something, of whatever kind, is at `path`.
bool path_exists(const std::string& path);

/// `text` between single quotes for a message: control characters escaped, long ones cut.
std::string in_quotes(std::string_view text);

} // namespace troupe::engine
