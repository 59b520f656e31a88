// The files of a batch job: a streaming reader of the input, and the rules for its paths.
//
// The reader needs memory for one line only and skips a longer one without keeping it.

#pragma once

#include "actors/digest.hpp"
#include "schedulers/core/result.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace troupe::app {

/// 32 hex digits.
std::string hex(const Digest& digest);

/// XXH3-128 of a file's bytes, read in pieces.
Result<Digest> digest_of_file(const std::string& path);

/// One line of the input that is not blank.
struct InputLine {
  std::int64_t number = 0; ///< Line of the file from 1, blank ones counted.
  std::int64_t offset = 0; ///< Byte of the file where the text begins.
  std::int64_t length = 0; ///< Bytes of the text, without the line end.
  Digest digest;           ///< Over the text, also of a line that is too long.
  bool is_too_long = false;
  std::string text; ///< Empty when too long.
};

/// What LineReader::next found.
enum class ReadState : std::uint8_t {
  line,
  end,
  waiting ///< Standard input only: nothing has come yet.
};

/// Reads lines one after the other: UTF-8 with or without a byte-order mark, LF or CRLF, blank
/// lines (spaces and tabs count as blank) skipped, last newline optional.
///
///   Cost     memory of one line, at most line_bytes_max, and a buffer of 256 KiB
///   Thread   one owner
class LineReader {
public:
  /// "-" reads standard input. Errors: not_found, io_error, bad_argument (no regular file).
  static Result<LineReader> open(const std::string& path, std::int64_t line_bytes_max);

  LineReader(LineReader&&) noexcept;
  LineReader& operator=(LineReader&&) noexcept;
  ~LineReader();

  /// The next line. `waiting` only when the input is standard input and `wait_ms` passed.
  Result<ReadState> next(InputLine& line, std::int64_t wait_ms = -1);

  /// Digest of all bytes read so far; after `end` that of the whole input.
  Digest input_digest() const noexcept;
  /// Bytes read so far.
  std::int64_t input_bytes() const noexcept;

private:
  struct State;
  explicit LineReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Reads single lines of a file again, wherever they are.
///
///   Errors   mismatch, with the line number, when the bytes are not those of the digest any more
class LineFetcher {
public:
  static Result<LineFetcher> open(const std::string& path);

  LineFetcher(LineFetcher&& other) noexcept;
  LineFetcher& operator=(LineFetcher&& other) noexcept;
  ~LineFetcher();

  /// Checks number, offset, length and digest of `line` and fills `text` unless it is too long.
  Status fetch(InputLine& line);

private:
  LineFetcher(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_ = -1;
};

/// Remembers custom_ids by their digest: about 60 bytes each, however long they are.
class DuplicateFinder {
public:
  /// The line that had this custom_id first, or 0 when it is new; then it is `line_number` now.
  std::int64_t first_line_of(std::string_view custom_id, std::int64_t line_number);

private:
  struct Hash {
    std::size_t operator()(const Digest& digest) const noexcept { return digest.low; }
  };
  std::unordered_map<Digest, std::int64_t, Hash> lines_;
};

/// Where a job reads and writes.
struct BatchPaths {
  std::string input; ///< "-" = standard input.
  std::string output;
  std::string errors;
  std::string journal; ///< "" with standard input.
};

/// Fills in what the user left out: errors ("results.jsonl" → "results.errors.jsonl") and the
/// journal (OUTPUT.journal). Pure.
BatchPaths batch_paths(const std::string& input, const std::string& output,
                       const std::string& errors);

/// The folder that a path stands in, "." when it names none. Pure.
std::string folder_of(const std::string& path);

/// True when both paths name one file: by inode, or, while it does not exist, by its full name.
bool is_same_file(const std::string& left, const std::string& right);

/// A path with the word for it in messages.
struct NamedPath {
  std::string path;
  std::string what;
};

/// What the job and its journal make beside the results, where the configuration says nothing else.
std::vector<NamedPath> side_files(const BatchPaths& paths);

/// Refuses paths that cannot work, before anything is opened or made: a missing input, an output
/// that is no regular file or whose folder is missing, two of them being one file, by link too, or
/// one being a side file.
Status check_batch_paths(const BatchPaths& paths);

} // namespace troupe::app
