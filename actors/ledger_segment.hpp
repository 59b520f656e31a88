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

/// Bytes of a segment that make no frame.
struct SegmentFault {
  std::int64_t offset = 0; ///< Of the first one.
  std::int64_t bytes = 0;  ///< To the next frame that can be read, or to the end of the file.
  bool torn = false;       ///< The file ends inside a frame: its writer was stopped.
  std::string what;        ///< Without the file's name.
};

/// One segment, frame by frame. Behind damage it goes on with the next frame whose checksum is
/// right, found in one pass over the bytes between.
class SegmentReader {
public:
  struct Frame {
    FrameKind kind = FrameKind::head;
    std::string_view bytes; ///< Valid until the next frame is read.
    std::int64_t offset = 0;
  };

  /// Reads the head. The error says what is wrong, without the file's name. A head that is damaged
  /// or torn is no error but a fault.
  static Result<SegmentReader> open(const std::string& path);

  /// None when it is damaged or torn.
  const std::optional<SegmentHead>& head() const noexcept { return head_; }

  /// The next frame whose checksum is right; none at the end of the file.
  std::optional<Frame> next();

  /// Adds a fault: a frame whose bytes are whole but make no sense.
  void give_up(const Frame& frame, const std::string& what);

  /// So far, ascending.
  const std::vector<SegmentFault>& faults() const noexcept { return faults_; }
  /// Whether what was read last, a frame or not, is the end of the file and a fault.
  bool ends_in_fault() const noexcept;

private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  /// Why there is no frame at a place.
  struct Problem {
    std::string what;
    bool is_cut = false; ///< The file ends before the frame does.
  };

  SegmentReader(std::FILE* file, std::int64_t size);
  Status read_head();
  std::optional<Frame> read_frame(Problem& problem);
  void skip(const Problem& problem);
  std::optional<std::int64_t> find_frame(std::int64_t from);
  bool has_frame(std::int64_t offset, const char* head, std::int64_t length);
  void add_fault(SegmentFault fault);

  std::unique_ptr<std::FILE, Close> file_;
  std::int64_t size_ = 0;
  std::int64_t offset_ = 0;
  std::string frame_;
  std::int64_t search_left_ = 0; ///< Bytes that may still be hashed to find frames.
  std::optional<SegmentHead> head_;
  std::vector<SegmentFault> faults_;
};

} // namespace troupe::actors
