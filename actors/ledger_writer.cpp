#include "actors/ledger_writer.hpp"

#include "actors/ledger_reader.hpp"
#include "actors/ledger_segment.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

namespace troupe::actors {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferBytes = 64 << 10; ///< Written when this much has gathered.
/// A stage may still decide by the set before the last one.
constexpr std::size_t kLiveSets = 2;

template <class Clock>
std::int64_t us_of() {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
      .count();
}

std::int64_t size_of(const std::string& path) {
  std::error_code code;
  const std::uintmax_t size = fs::file_size(path, code);
  return code ? 0 : static_cast<std::int64_t>(size);
}

} // namespace

struct LedgerWriter::State {
  std::string folder;
  std::int64_t size_max = 0;
  std::int64_t segment_max = 0;
  std::uint64_t segment = 0; ///< Number of the last one begun.
  std::int64_t segment_bytes = 0;
  int file = -1;
  std::uint64_t next_number = 0; ///< After all that was taken in.
  std::uint64_t buffered_from = 0;
  std::string buffer;
  std::int64_t buffered = 0; ///< Entries in it.
  std::int64_t lost = 0;
  bool has_warned = false;
  std::deque<sched::SetLive> live;    ///< Before the buffer.
  std::vector<sched::SetLive> coming; ///< In the buffer.
  LedgerEncoder encoder;

  int lock = -1; ///< The folder, so that no other process writes into it.

  ~State() {
    close_file();
    if (lock >= 0) ::close(lock);
  }

  Status take_folder() {
    lock = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // Where folders cannot be locked, nobody is kept out.
    if (lock < 0 || ::flock(lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return {};
    return {ErrorCode::busy, folder +
                                 ": another process writes its ledger there; give each job its own "
                                 "ledger.directory"};
  }

  void close_file() {
    if (file >= 0) ::close(file);
    file = -1;
  }

  /// Makes room for one more segment.
  void remove_old() const {
    std::vector<std::uint64_t> numbers = segment_numbers(folder);
    std::int64_t bytes = 0;
    for (const std::uint64_t number : numbers)
      bytes += size_of(segment_path(folder, number));
    for (const std::uint64_t number : numbers) {
      const bool fits =
          bytes + segment_max <= size_max && static_cast<std::int64_t>(numbers.size()) < kSegments;
      if (fits) return;
      bytes -= size_of(segment_path(folder, number));
      std::error_code code;
      fs::remove(segment_path(folder, number), code);
      numbers.erase(std::find(numbers.begin(), numbers.end(), number));
    }
  }

  /// Begins the segment after the last one.
  bool begin_segment() {
    close_file();
    remove_old();
    ++segment;
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC;
    file = ::open(segment_path(folder, segment).c_str(), flags, 0644);
    if (file < 0) return false;
    segment_bytes = 0;
    std::string text(kSegmentMagic);
    const std::size_t frame = begin_frame(text, FrameKind::head);
    text += encode(SegmentHead{kSegmentVersion,
                               TROUPE_VERSION,
                               segment,
                               buffered_from,
                               us_of<std::chrono::system_clock>(),
                               us_of<std::chrono::steady_clock>(),
                               {live.begin(), live.end()}});
    end_frame(text, frame);
    if (append(text)) return true;
    const int failed = errno;
    close_file();
    ::unlink(segment_path(folder, segment).c_str());
    --segment;
    errno = failed;
    return false;
  }

  /// All of it, or none.
  bool append(const std::string& text) {
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t wrote = ::write(file, text.data() + done, text.size() - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) break;
      done += static_cast<std::size_t>(wrote);
    }
    if (done == text.size()) {
      segment_bytes += static_cast<std::int64_t>(done);
      return true;
    }
    const int failed = errno;
    if (::ftruncate(file, segment_bytes) != 0) close_file(); // The next write begins a segment.
    errno = failed;
    return false;
  }

  bool write_buffer() {
    const auto bytes = static_cast<std::int64_t>(buffer.size());
    if (file < 0 || segment_bytes + bytes > segment_max) {
      if (!begin_segment()) return false;
    }
    if (segment_bytes + bytes > segment_max) {
      errno = EFBIG;
      return false;
    }
    return append(buffer);
  }

  void warn() {
    if (std::exchange(has_warned, true)) return;
    spdlog::warn("{}: the ledger cannot be written; the job goes on: {}", folder,
                 std::strerror(errno));
  }
};

LedgerWriter::LedgerWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
LedgerWriter::LedgerWriter(LedgerWriter&&) noexcept = default;
LedgerWriter& LedgerWriter::operator=(LedgerWriter&&) noexcept = default;

LedgerWriter::~LedgerWriter() {
  if (state_) write_out();
}

Result<LedgerWriter> LedgerWriter::open(const std::string& folder, std::int64_t size_max_bytes) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) {
    return Error{ErrorCode::io_error,
                 fmt::format("{}: cannot make the ledger folder: {}", folder, code.message())};
  }
  auto state = std::make_unique<State>();
  state->folder = folder;
  if (Status taken = state->take_folder(); !taken.ok()) return taken.error();
  state->size_max = size_max_bytes;
  state->segment_max = std::max<std::int64_t>(size_max_bytes / kSegments, 1);
  const auto numbers = segment_numbers(folder);
  state->segment = numbers.empty() ? 0 : numbers.back();
  state->next_number = state->buffered_from = end_of_ledger(folder).next_number;
  if (!state->begin_segment()) {
    return Error{ErrorCode::io_error, fmt::format("{}: cannot write into the ledger folder: {}",
                                                  folder, std::strerror(errno))};
  }
  return LedgerWriter(std::move(state));
}

std::uint64_t LedgerWriter::next_number() const noexcept { return state_->next_number; }

void LedgerWriter::add(const sched::LedgerEntry& entry) {
  State& state = *state_;
  // One frame more must not make a buffer that fits no segment.
  std::string& buffer = state.buffer;
  const std::size_t before = buffer.size();
  const std::size_t frame = begin_frame(buffer, static_cast<FrameKind>(entry.what.index() + 1));
  state.encoder.encode(entry, buffer);
  end_frame(buffer, frame);
  const auto room = static_cast<std::size_t>(state.segment_max) / 2;
  if (before > 0 && buffer.size() > room) {
    std::string last = buffer.substr(before);
    buffer.resize(before);
    write_out();
    buffer = std::move(last);
  }
  if (state.buffered == 0) state.buffered_from = entry.number;
  ++state.buffered;
  state.next_number = entry.number + 1;
  if (const auto* set = std::get_if<sched::SetLive>(&entry.what)) state.coming.push_back(*set);
  if (buffer.size() >= kBufferBytes) write_out();
}

void LedgerWriter::write_out() {
  State& state = *state_;
  if (state.buffered == 0) return;
  if (!state.write_buffer()) {
    state.warn();
    state.lost += state.buffered;
  }
  for (sched::SetLive& set : state.coming) {
    state.live.push_back(std::move(set));
    if (state.live.size() > kLiveSets) state.live.pop_front();
  }
  state.coming.clear();
  state.buffer.clear();
  state.buffered = 0;
  state.buffered_from = state.next_number;
}

std::int64_t LedgerWriter::lost() const noexcept { return state_->lost; }

} // namespace troupe::actors
