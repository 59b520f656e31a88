#include "actors/ledger_segment.hpp"

#include "actors/digest.hpp"
#include "engine/text/system_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe::actors {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "ledger-";
constexpr std::string_view kSuffix = ".seg";
constexpr std::int64_t kHeadBytes = kFrameHeadBytes;
constexpr std::int64_t kHashedPerByte = 32; ///< What looks like a frame may be hashed in vain.
constexpr std::size_t kWindowBytes = 64 << 10;
constexpr const char* kEndsInside = "the file ends inside a frame";

template <class Integer>
void store(char* at, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i)
    at[i] = static_cast<char>((value >> (8 * i)) & 0xFF);
}

template <class Integer>
Integer load(const char* at) {
  Integer value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i)
    value |= static_cast<Integer>(static_cast<unsigned char>(at[i])) << (8 * i);
  return value;
}

std::optional<std::uint64_t> number_of(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  std::uint64_t number = 0;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (failed != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return number;
}

std::uint64_t checksum_of(std::string_view bytes) { return digest_of(bytes).low; }

} // namespace

std::string segment_path(const std::string& folder, std::uint64_t number) {
  return (fs::path(folder) / fmt::format("{}{:08}{}", kPrefix, number, kSuffix)).string();
}

std::vector<std::uint64_t> segment_numbers(const std::string& folder) {
  std::vector<std::uint64_t> numbers;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    if (const auto number = number_of(entry.path().filename().string())) {
      numbers.push_back(*number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::size_t begin_frame(std::string& out, FrameKind kind) {
  const std::size_t begin = out.size();
  out.append(kFrameHeadBytes, '\0');
  out.push_back(static_cast<char>(kind));
  return begin;
}

void end_frame(std::string& out, std::size_t begin) {
  const std::string_view content = std::string_view(out).substr(begin + kFrameHeadBytes);
  const std::uint64_t checksum = checksum_of(content);
  store(out.data() + begin, static_cast<std::uint32_t>(content.size()));
  store(out.data() + begin + sizeof(std::uint32_t), checksum);
}

SegmentReader::SegmentReader(std::FILE* file, std::int64_t size)
    : file_(file), size_(size), search_left_(kHashedPerByte * size) {}

Result<SegmentReader> SegmentReader::open(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe that nobody writes would wait for ever.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat facts {};
  const bool is_open = descriptor >= 0 && ::fstat(descriptor, &facts) == 0;
  std::FILE* file = is_open && S_ISREG(facts.st_mode) ? ::fdopen(descriptor, "rb") : nullptr;
  if (file == nullptr) {
    Error error{ErrorCode::io_error, is_open && !S_ISREG(facts.st_mode)
                                         ? "found no regular file, expected a ledger segment"
                                         : text::system_words(errno)};
    if (descriptor >= 0) ::close(descriptor);
    return error;
  }
  SegmentReader reader(file, static_cast<std::int64_t>(facts.st_size));
  if (const Status status = reader.read_head(); !status.ok()) return status.error();
  return reader;
}

Status SegmentReader::read_head() {
  std::string magic(kSegmentMagic.size(), '\0');
  magic.resize(std::fread(magic.data(), 1, magic.size(), file_.get()));
  if (!kSegmentMagic.starts_with(magic)) {
    return {ErrorCode::parse_error,
            "found no ledger segment, expected it to begin with \"TRPLEDG\""};
  }
  if (magic.size() < kSegmentMagic.size()) {
    add_fault({0, size_, true, "the file ends inside its head"});
    offset_ = size_;
    return {};
  }
  if (size_ < static_cast<std::int64_t>(magic.size())) {
    return {ErrorCode::io_error,
            fmt::format("is told to have {} bytes but holds more, expected a file of a known "
                        "size; copy the ledger to a disk and name the copy",
                        size_)};
  }
  offset_ = static_cast<std::int64_t>(magic.size());
  Problem problem;
  const auto frame = read_frame(problem);
  if (!frame) {
    skip({"its head cannot be read: " + problem.what, problem.is_cut});
    return {};
  }
  if (frame->kind != FrameKind::head) {
    return {ErrorCode::parse_error, "its head cannot be read: it is missing"};
  }
  auto head = decode_segment_head(frame->bytes);
  if (!head.ok()) return head.status();
  if (head->version != kSegmentVersion) {
    return {ErrorCode::unsupported,
            fmt::format("found format version {}, expected {}; read it with the program that "
                        "wrote it, version {}",
                        head->version, kSegmentVersion, head->build)};
  }
  head_ = std::move(*head);
  return {};
}

std::optional<SegmentReader::Frame> SegmentReader::next() {
  while (offset_ < size_) {
    Problem problem;
    if (auto frame = read_frame(problem)) return frame;
    skip(problem);
  }
  return std::nullopt;
}

std::optional<SegmentReader::Frame> SegmentReader::read_frame(Problem& problem) {
  const std::int64_t left = size_ - offset_;
  char head[kFrameHeadBytes];
  if (left < kHeadBytes || std::fread(head, 1, kFrameHeadBytes, file_.get()) != kFrameHeadBytes) {
    problem = {kEndsInside, true};
    return std::nullopt;
  }
  const auto length = load<std::uint32_t>(head);
  const auto checksum = load<std::uint64_t>(head + sizeof(std::uint32_t));
  if (length == 0 || length > kFrameBytesMax) {
    problem = {fmt::format("a frame says it is {} bytes long", length), false};
    return std::nullopt;
  }
  if (left - kHeadBytes < length) {
    problem = {kEndsInside, true};
    return std::nullopt;
  }
  frame_.resize(length);
  if (std::fread(frame_.data(), 1, length, file_.get()) != length) {
    problem = {kEndsInside, true};
    return std::nullopt;
  }
  if (checksum_of(frame_) != checksum) {
    problem = {"a frame does not have its checksum", false};
    return std::nullopt;
  }
  const auto kind = static_cast<std::uint8_t>(frame_.front());
  const Frame frame{static_cast<FrameKind>(kind), std::string_view(frame_).substr(1), offset_};
  offset_ += kHeadBytes + length;
  return frame;
}

void SegmentReader::skip(const Problem& problem) {
  const auto found = find_frame(offset_ + 1);
  const std::int64_t end = found.value_or(size_);
  // With a frame behind it, it is the length that is wrong, not the file that is cut.
  const bool is_torn = problem.is_cut && !found;
  add_fault({offset_, end - offset_, is_torn,
             problem.is_cut && found ? "a frame says it is longer than its file" : problem.what});
  offset_ = end;
  if (found) ::fseeko(file_.get(), static_cast<off_t>(end), SEEK_SET);
}

std::optional<std::int64_t> SegmentReader::find_frame(std::int64_t from) {
  std::string window(kWindowBytes, '\0');
  for (std::int64_t at = from; at + kHeadBytes < size_;) {
    const auto got = ::pread(::fileno(file_.get()), window.data(), window.size(), at);
    // The last places of a window have no whole head and kind in it, and begin the next one.
    const std::int64_t places = got - kHeadBytes;
    if (places <= 0) return std::nullopt;
    for (std::int64_t i = 0; i < places; ++i) {
      const char* head = window.data() + i;
      const std::int64_t length = load<std::uint32_t>(head);
      const auto kind = static_cast<std::uint8_t>(head[kFrameHeadBytes]);
      if (length == 0 ||
          length > std::min<std::int64_t>(kFrameBytesMax, size_ - at - i - kHeadBytes))
        continue;
      if (kind == 0 || kind > static_cast<std::uint8_t>(FrameKind::took)) continue;
      if (length > search_left_) return std::nullopt;
      search_left_ -= length;
      if (has_frame(at + i, head, length)) return at + i;
    }
    at += places;
  }
  return std::nullopt;
}

bool SegmentReader::has_frame(std::int64_t offset, const char* head, std::int64_t length) {
  frame_.resize(static_cast<std::size_t>(length));
  const auto got =
      ::pread(::fileno(file_.get()), frame_.data(), frame_.size(), offset + kHeadBytes);
  return got == length && checksum_of(frame_) == load<std::uint64_t>(head + sizeof(std::uint32_t));
}

void SegmentReader::give_up(const Frame& frame, const std::string& what) {
  const auto bytes = static_cast<std::int64_t>(frame.bytes.size()) + 1;
  add_fault({frame.offset, kHeadBytes + bytes, false, what});
}

void SegmentReader::add_fault(SegmentFault fault) {
  if (!faults_.empty() && faults_.back().what == fault.what &&
      faults_.back().offset + faults_.back().bytes == fault.offset) {
    faults_.back().bytes += fault.bytes;
  } else {
    faults_.push_back(std::move(fault));
  }
}

bool SegmentReader::ends_in_fault() const noexcept {
  return !faults_.empty() && faults_.back().offset + faults_.back().bytes == size_;
}

} // namespace troupe::actors
