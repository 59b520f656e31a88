// Segment files of a ledger: their names, their frames, and reading one.
//
//   file    "TRPLEDG\n", then frames; the first one holds the head
//   frame   u32 length of what follows the checksum, u64 checksum (the low half of its XXH3-128),
//           u8 kind, a Protobuf record; integers little-endian

#pragma once

#include "actors/records/ledger_codec.hpp"
#include "schedulers/core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::actors {

inline constexpr std::string_view kSegmentMagic = "TRPLEDG\n";
inline constexpr std::uint32_t kSegmentVersion = 1;
inline constexpr std::size_t kFrameHeadBytes = 12;
inline constexpr std::uint32_t kFrameBytesMax = 64U << 20;

/// What a frame holds: the head, or an entry of LedgerEntry::what in the order of its variant.
enum class FrameKind : std::uint8_t {
  head,
  record,
  observed,
  milestone,
  finish,
  set_live,
  named,
  rank_change,
  began,
  took,
};

/// "FOLDER/ledger-00000007.seg".
std::string segment_path(const std::string& folder, std::uint64_t number);

/// Numbers of the segments of a folder, ascending; empty when there is no such folder.
std::vector<std::uint64_t> segment_numbers(const std::string& folder);

/// Reserves the head of a frame at the end of `out`; its content is appended after it.
std::size_t begin_frame(std::string& out, FrameKind kind);
/// Fills in the head that begin_frame reserved at `begin`.
void end_frame(std::string& out, std::size_t begin);

/// Why a segment ends before its file does.
struct SegmentFault {
  std::int64_t offset = 0; ///< Of the first byte that was not read.
  std::int64_t bytes = 0;  ///< From there to the end of the file.
  bool torn = false;       ///< The file ends inside a frame: its writer was stopped.
  std::string what;        ///< Without the file's name.
};

/// One segment, frame by frame.
class SegmentReader {
public:
  struct Frame {
    FrameKind kind = FrameKind::head;
    std::string_view bytes; ///< Valid until the next frame is read.
    std::int64_t offset = 0;
  };

  /// Reads the head. The error says what is wrong, without the file's name.
  static Result<SegmentReader> open(const std::string& path);

  const SegmentHead& head() const noexcept { return head_; }

  /// The next frame whose checksum is right; none at the end of the file or at a fault.
  std::optional<Frame> next();

  /// Ends the segment at a frame whose bytes are whole but make no sense.
  void give_up(const Frame& frame, std::string what);

  const std::optional<SegmentFault>& fault() const noexcept { return fault_; }

private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  SegmentReader(std::FILE* file, std::int64_t size) : file_(file), size_(size) {}
  void fail(std::int64_t offset, bool torn, std::string what);

  std::unique_ptr<std::FILE, Close> file_;
  std::int64_t size_ = 0;
  std::int64_t offset_ = 0;
  std::string frame_;
  SegmentHead head_;
  std::optional<SegmentFault> fault_;
};

} // namespace troupe::actors
