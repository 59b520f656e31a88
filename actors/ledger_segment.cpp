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
  std::error_code code;
  const std::uintmax_t size = fs::file_size(path, code);
  SegmentReader reader(file, code ? 0 : static_cast<std::int64_t>(size));
  std::string magic(kSegmentMagic.size(), '\0');
  if (std::fread(magic.data(), 1, magic.size(), file) != magic.size() || magic != kSegmentMagic) {
    return Error{ErrorCode::parse_error,
                 fmt::format("found no ledger segment, expected it to begin with \"TRPLEDG\"")};
  }
  if (reader.size_ < static_cast<std::int64_t>(magic.size())) {
    return Error{ErrorCode::io_error,
                 fmt::format("is told to have {} bytes but holds more, expected a file of a known "
                             "size; copy the ledger to a disk and name the copy",
                             reader.size_)};
  }
  reader.offset_ = static_cast<std::int64_t>(magic.size());
  const auto frame = reader.next();
  if (!frame || frame->kind != FrameKind::head) {
    return Error{ErrorCode::parse_error,
                 "its head cannot be read: " +
                     (reader.fault_ ? reader.fault_->what : std::string("it is missing"))};
  }
  auto head = decode_segment_head(frame->bytes);
  if (!head.ok()) return head.error();
  if (head->version != kSegmentVersion) {
    return Error{ErrorCode::unsupported,
                 fmt::format("found format version {}, expected {}; read it with the program that "
                             "wrote it, version {}",
                             head->version, kSegmentVersion, head->build)};
  }
  reader.head_ = std::move(*head);
  return reader;
}

std::optional<SegmentReader::Frame> SegmentReader::next() {
  if (fault_ || offset_ >= size_) return std::nullopt;
  const std::int64_t left = size_ - offset_;
  char head[kFrameHeadBytes];
  if (left < static_cast<std::int64_t>(kFrameHeadBytes) ||
      std::fread(head, 1, kFrameHeadBytes, file_.get()) != kFrameHeadBytes) {
    fail(offset_, true, "the file ends inside a frame");
    return std::nullopt;
  }
  const auto length = load<std::uint32_t>(head);
  const auto checksum = load<std::uint64_t>(head + sizeof(std::uint32_t));
  if (length == 0 || length > kFrameBytesMax) {
    fail(offset_, false, fmt::format("a frame says it is {} bytes long", length));
    return std::nullopt;
  }
  if (left - static_cast<std::int64_t>(kFrameHeadBytes) < length) {
    fail(offset_, true, "the file ends inside a frame");
    return std::nullopt;
  }
  frame_.resize(length);
  if (std::fread(frame_.data(), 1, length, file_.get()) != length) {
    fail(offset_, true, "the file ends inside a frame");
    return std::nullopt;
  }
  if (checksum_of(frame_) != checksum) {
    fail(offset_, false, "a frame does not have its checksum");
    return std::nullopt;
  }
  const auto kind = static_cast<std::uint8_t>(frame_.front());
  Frame frame{static_cast<FrameKind>(kind), std::string_view(frame_).substr(1), offset_};
  offset_ += static_cast<std::int64_t>(kFrameHeadBytes) + length;
  return frame;
}

void SegmentReader::give_up(const Frame& frame, std::string what) {
  fail(frame.offset, false, std::move(what));
}

void SegmentReader::fail(std::int64_t offset, bool torn, std::string what) {
  fault_ = SegmentFault{offset, size_ - offset, torn, std::move(what)};
}

} // namespace troupe::actors
