#include "actors/app/batch_files.hpp"

#include "actors/app/disk_error.hpp"
#include "schedulers/core/hex.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace troupe::app {

namespace {

constexpr std::size_t kBufferBytes = 256 << 10;
constexpr char kByteOrderMark[] = "\xEF\xBB\xBF";

bool is_blank(std::string_view text) noexcept {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

Error io_failure(const std::string& path, const char* action) {
  return {ErrorCode::io_error, path + ": cannot " + action + ": " + disk_error(errno)};
}

} // namespace

std::string hex(const Digest& digest) {
  std::string out;
  append_hex(digest.high, 16, out);
  append_hex(digest.low, 16, out);
  return out;
}

Result<Digest> digest_of_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return io_failure(path, "open");
  }
  StreamDigest hash;
  std::vector<char> buffer(kBufferBytes);
  ssize_t got = 0;
  while ((got = ::read(fd, buffer.data(), buffer.size())) != 0) {
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      break;
    }
    hash.add({buffer.data(), static_cast<std::size_t>(got)});
  }
  const Error failure = io_failure(path, "read");
  ::close(fd);
  if (got < 0) {
    return failure;
  }
  return hash.digest();
}

// -- LineReader ---------------------------------------------------------------------------------

struct LineReader::State {
  std::string path;
  int fd = -1;
  bool is_standard_input = false;
  std::int64_t line_bytes_max = 0;

  std::vector<char> buffer = std::vector<char>(kBufferBytes);
  std::size_t position = 0;
  std::size_t filled = 0;
  bool at_eof = false;
  std::int64_t bytes_read = 0;
  StreamDigest input_hash;

  bool is_mark_checked = false; ///< Whether the file begins with a byte-order mark is known.
  bool is_started = false;      ///< A line is being collected.
  std::int64_t line_number = 0; ///< Of the line that is being collected.
  std::int64_t line_offset = 0; ///< Of its first byte.
  std::int64_t line_length = 0; ///< Bytes collected or skipped, a held '\r' not counted.
  bool is_too_long = false;     ///< Its bytes are hashed, not kept.
  bool holds_return = false;    ///< A '\r' that is text only when more follows. Too long only.
  bool is_all_blank = true;     ///< Too long only.
  std::string text;
  StreamDigest line_hash;

  ~State() {
    if (fd >= 0 && !is_standard_input) {
      ::close(fd);
    }
  }

  void begin_line() {
    is_started = true;
    ++line_number;
    line_offset = bytes_read - static_cast<std::int64_t>(filled - position);
    line_length = 0;
    is_too_long = holds_return = false;
    is_all_blank = true;
    text.clear();
  }

  void take(std::string_view chunk) {
    if (!is_too_long) {
      // One byte more than allowed may be the '\r' of the line end.
      if (static_cast<std::int64_t>(text.size() + chunk.size()) <= line_bytes_max + 1) {
        text.append(chunk);
        drop_byte_order_mark();
        return;
      }
      is_too_long = true;
      line_hash.reset();
      const std::string start = std::move(text);
      text = std::string();
      skip(start);
    }
    skip(chunk);
  }

  void drop_byte_order_mark() {
    if (is_mark_checked || text.size() < 3) {
      return;
    }
    is_mark_checked = true;
    if (line_number == 1 && text.compare(0, 3, kByteOrderMark) == 0) {
      text.erase(0, 3);
      line_offset += 3;
    }
  }

  void skip(std::string_view chunk) {
    if (chunk.empty()) {
      return;
    }
    if (holds_return) {
      line_hash.add("\r");
      ++line_length;
    }
    holds_return = chunk.back() == '\r';
    if (holds_return) {
      chunk.remove_suffix(1);
    }
    is_all_blank = is_all_blank && is_blank(chunk);
    line_hash.add(chunk);
    line_length += static_cast<std::int64_t>(chunk.size());
  }

  /// False when the line is blank.
  bool end_line(InputLine& line) {
    is_started = false;
    if (!is_too_long) {
      if (!text.empty() && text.back() == '\r') {
        text.pop_back();
      }
      if (is_blank(text)) {
        return false;
      }
    } else if (is_all_blank) {
      return false;
    }
    line.number = line_number;
    line.offset = line_offset;
    line.length = is_too_long ? line_length : static_cast<std::int64_t>(text.size());
    line.digest = is_too_long ? line_hash.digest() : digest_of(text);
    line.is_too_long = line.length > line_bytes_max;
    line.text.swap(text);
    if (line.is_too_long) {
      line.text = std::string();
    }
    return true;
  }

  /// Reads more; false when nothing came within wait_ms.
  Result<bool> fill(std::int64_t wait_ms) {
    if (is_standard_input && wait_ms >= 0) {
      pollfd waiter{fd, POLLIN, 0};
      const int ready = ::poll(&waiter, 1, static_cast<int>(wait_ms));
      if (ready == 0 || (ready < 0 && errno == EINTR)) {
        return false;
      }
      if (ready < 0) {
        return io_failure(path, "wait for input");
      }
    }
    ssize_t got = 0;
    do {
      got = ::read(fd, buffer.data(), buffer.size());
    } while (got < 0 && errno == EINTR && wait_ms < 0);
    if (got < 0) {
      if (errno == EINTR || errno == EAGAIN) {
        return false;
      }
      return io_failure(path, "read");
    }
    position = 0;
    filled = static_cast<std::size_t>(got);
    at_eof = got == 0;
    input_hash.add({buffer.data(), filled});
    bytes_read += got;
    return true;
  }
};

LineReader::LineReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
LineReader::LineReader(LineReader&&) noexcept = default;
LineReader& LineReader::operator=(LineReader&&) noexcept = default;
LineReader::~LineReader() = default;

Result<LineReader> LineReader::open(const std::string& path, std::int64_t line_bytes_max) {
  TROUPE_CHECK(line_bytes_max > 0, "a line needs room");
  auto state = std::make_unique<State>();
  state->path = path == "-" ? "standard input" : path;
  state->line_bytes_max = line_bytes_max;
  state->is_standard_input = path == "-";
  if (state->is_standard_input) {
    state->fd = STDIN_FILENO;
    const int flags = ::fcntl(STDIN_FILENO, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY) {
      return Error{ErrorCode::bad_argument,
                   "standard input is closed, so that there is nothing to read; give it a file or "
                   "a pipe, or name a file"};
    }
    return LineReader(std::move(state));
  }
  // O_NONBLOCK: opening a pipe without a writer must not wait for one.
  state->fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (state->fd < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::not_found : ErrorCode::io_error;
    // A limit that was met says itself what to do.
    const char* advice =
        errno == EMFILE || errno == ENFILE ? "" : "; give a file, or - for standard input";
    return Error{code, path + ": cannot open the input: " + disk_error(errno) + advice};
  }
  struct stat facts {};
  if (::fstat(state->fd, &facts) != 0) {
    return io_failure(path, "examine the input");
  }
  if (!S_ISREG(facts.st_mode)) {
    return Error{ErrorCode::bad_argument,
                 path + ": the input is no regular file; give a file, or - for standard input"};
  }
  return LineReader(std::move(state));
}

Result<ReadState> LineReader::next(InputLine& line, std::int64_t wait_ms) {
  State& s = *state_;
  for (;;) {
    if (s.position == s.filled && !s.at_eof) {
      Result<bool> filled = s.fill(wait_ms);
      if (!filled) {
        return filled.error();
      }
      if (!*filled) {
        return ReadState::waiting;
      }
      continue;
    }
    if (s.position == s.filled) {
      return s.is_started && s.end_line(line) ? ReadState::line : ReadState::end;
    }
    if (!s.is_started) {
      s.begin_line();
    }
    const char* begin = s.buffer.data() + s.position;
    const std::size_t left = s.filled - s.position;
    const char* newline = static_cast<const char*>(std::memchr(begin, '\n', left));
    const std::size_t count = newline != nullptr ? static_cast<std::size_t>(newline - begin) : left;
    s.take({begin, count});
    s.position += count;
    if (newline == nullptr) {
      continue;
    }
    ++s.position;
    if (s.end_line(line)) {
      return ReadState::line;
    }
  }
}

Digest LineReader::input_digest() const noexcept { return state_->input_hash.digest(); }
std::int64_t LineReader::input_bytes() const noexcept { return state_->bytes_read; }

// -- LineFetcher --------------------------------------------------------------------------------

LineFetcher::LineFetcher(LineFetcher&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

LineFetcher& LineFetcher::operator=(LineFetcher&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

LineFetcher::~LineFetcher() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

Result<LineFetcher> LineFetcher::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return io_failure(path, "open the input");
  }
  return LineFetcher(path, fd);
}

Status LineFetcher::fetch(InputLine& line) {
  StreamDigest hash;
  std::string chunk;
  line.text.clear();
  std::int64_t done = 0;
  while (done < line.length) {
    chunk.resize(static_cast<std::size_t>(
        std::min<std::int64_t>(line.length - done, static_cast<std::int64_t>(kBufferBytes))));
    const ssize_t got = ::pread(fd_, chunk.data(), chunk.size(), line.offset + done);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return io_failure(path_, "read the input");
    }
    if (got == 0) {
      break;
    }
    chunk.resize(static_cast<std::size_t>(got));
    hash.add(chunk);
    if (!line.is_too_long) {
      line.text += chunk;
    }
    done += got;
  }
  if (done != line.length || hash.digest() != line.digest) {
    return {ErrorCode::mismatch,
            path_ + ":" + std::to_string(line.number) +
                ": this line changed while the job was running; the input of a job must stay as it "
                "was: bring the old file back, or begin anew with --restart"};
  }
  return {};
}

// -- DuplicateFinder ----------------------------------------------------------------------------

std::int64_t DuplicateFinder::first_line_of(std::string_view custom_id, std::int64_t line_number) {
  const auto [at, is_new] = lines_.try_emplace(digest_of(custom_id), line_number);
  return is_new ? 0 : at->second;
}

// -- paths --------------------------------------------------------------------------------------

namespace {

/// The path without links and dots, also of a file that does not exist.
std::string full_name(const std::string& path) {
  std::error_code error;
  const std::filesystem::path full =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  return error ? path : full.string();
}

/// Whether the file, or the folder it is to be made in, may be written: also by the mount.
Status check_permission(const std::string& path, const std::string& place, int mode,
                        const char* what) {
  if (::access(place.c_str(), mode) == 0) {
    return {};
  }
  return {ErrorCode::bad_argument, path + ": cannot write the " + what + ": " + place + ": " +
                                       std::strerror(errno) +
                                       "; give a path that this user may write"};
}

Status check_writable_path(const std::string& path, const char* what) {
  if (path.empty()) {
    return {ErrorCode::bad_argument, std::string("the ") + what + " path is empty"};
  }
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0) {
    if (S_ISREG(facts.st_mode)) {
      return check_permission(path, path, W_OK, what);
    }
    return {ErrorCode::bad_argument, path + ": the " + what +
                                         " path is no regular file, which a job needs to go on "
                                         "after a stop; give the path of a file"};
  }
  if (errno != ENOENT) {
    return {ErrorCode::io_error, path + ": cannot examine it: " + std::strerror(errno)};
  }
  const std::string folder = folder_of(path);
  if (::stat(folder.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) {
    return {ErrorCode::not_found,
            path + ": the folder " + folder + " does not exist; make it first"};
  }
  return check_permission(path, folder, W_OK | X_OK, what);
}

/// SQLite's files beside its database.
std::vector<std::string> files_beside(const std::string& journal) {
  return {journal + "-journal", journal + "-wal", journal + "-shm"};
}

/// SQLite opens these beside a journal without looking what they are, and would wait for a pipe.
Status check_side_files(const std::string& journal) {
  for (const std::string& path : files_beside(journal)) {
    struct stat facts {};
    if (::stat(path.c_str(), &facts) != 0 || S_ISREG(facts.st_mode)) continue;
    return {ErrorCode::bad_argument,
            path + ": found what is no file where the journal keeps its own side file, expected a "
                   "file or nothing; move it away, or give the job another output"};
  }
  return {};
}

} // namespace

std::string folder_of(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

bool is_same_file(const std::string& left, const std::string& right) {
  struct stat a {};
  struct stat b {};
  const bool has_a = ::stat(left.c_str(), &a) == 0;
  const bool has_b = ::stat(right.c_str(), &b) == 0;
  if (has_a && has_b) {
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
  }
  return has_a == has_b && full_name(left) == full_name(right);
}

BatchPaths batch_paths(const std::string& input, const std::string& output,
                       const std::string& errors) {
  BatchPaths paths{input, output, errors, {}};
  if (paths.errors.empty()) {
    const std::filesystem::path path(output);
    paths.errors =
        (path.parent_path() / (path.stem().string() + ".errors" + path.extension().string()))
            .string();
  }
  if (input != "-") {
    paths.journal = output + ".journal";
  }
  return paths;
}

std::vector<NamedPath> side_files(const BatchPaths& paths) {
  std::vector<NamedPath> files = {{paths.output + ".ledger", "ledger folder"},
                                  {paths.output + ".sock", "control socket"}};
  if (paths.journal.empty()) return files;
  for (const std::string& path : files_beside(paths.journal))
    files.push_back({path, "journal's own side file"});
  return files;
}

Status check_batch_paths(const BatchPaths& paths) {
  if (paths.output == "-" || paths.errors == "-") {
    return {ErrorCode::bad_argument, "-: results go to files with a journal beside them, not to "
                                     "standard output; name a file"};
  }
  if (paths.input != "-") {
    Result<LineReader> input = LineReader::open(paths.input, 1);
    if (!input) {
      return input.status();
    }
  }
  std::vector<NamedPath> files = side_files(paths);
  if (paths.input != "-") {
    files.push_back({paths.input, "input"});
  }
  std::vector<NamedPath> written = {{paths.output, "output"}, {paths.errors, "errors"}};
  if (!paths.journal.empty()) {
    written.push_back({paths.journal, "journal"});
  }
  for (const NamedPath& file : written) {
    if (Status status = check_writable_path(file.path, file.what.c_str()); !status) {
      return status;
    }
    for (const NamedPath& other : files) {
      if (!is_same_file(file.path, other.path)) {
        continue;
      }
      return {ErrorCode::bad_argument, file.path + ": the " + file.what +
                                           " would be the same file "
                                           "as the " +
                                           other.what + " (" + other.path +
                                           "); give each its own path"};
    }
    files.push_back(file);
  }
  return paths.journal.empty() ? Status{} : check_side_files(paths.journal);
}

} // namespace troupe::app
