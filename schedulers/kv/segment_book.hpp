// Which segment of the store holds what, by when it ends: units of one class that end in the same
// hour lie together, so collecting garbage drops whole segments and looks at no unit.
//
// Sizes and times only; the bytes are elsewhere.

#pragma once

#include "schedulers/policy/retention_policy.hpp"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace troupe::sched {

enum class SegmentId : std::uint64_t {};

struct SegmentOptions {
  /// A segment is full when the next unit would go beyond it. Unit: bytes. Default 64 MiB.
  std::int64_t segment_bytes = 64LL << 20;
  /// Ends that fall into the same span share segments. Unit: us. Default one hour.
  std::int64_t span_us = 3'600'000'000;
  /// A unit is appended again when a hit finds less than this share of its time left. Unit:
  /// thousandths. Default 250.
  std::int64_t copy_below_permille = 250;
  /// All that may lie in segments. Unit: bytes. Default 0 = no limit.
  std::int64_t bytes_max = 0;
};

/// Segments with what lies in them; a full one takes no more, an ended one is dropped as a whole.
///
///   Cost   append O(log open segments); drop O(segments dropped)
///
/// Source: policies.md section 7.2.
class SegmentBook {
public:
  explicit SegmentBook(const SegmentOptions& options) : options_(options) {}

  /// Writes a unit that ends at `expires_us` behind those that end in the same span. A unit as
  /// large as a segment, or larger, has one of its own. @pre bytes >= 1
  SegmentId append(RetentionClass kind, std::int64_t bytes, std::int64_t expires_us);

  /// Segments all of whose units have ended, those that ended first before the others; they are
  /// forgotten. Each is one operation of the store.
  std::vector<SegmentId> drop_ended(std::int64_t now_us);

  /// The same for segments that end first, ended or not, until the book is within `bytes_max` by
  /// `bytes` more. Their units are lost before their time.
  std::vector<SegmentId> drop_for(std::int64_t bytes);

  /// Whether a hit should append a unit again instead of leaving it where it is: only then is the
  /// copy worth its writing. @param ttl_us  of its class
  bool worth_copying(std::int64_t now_us, std::int64_t expires_us,
                     std::int64_t ttl_us) const noexcept;

  std::int64_t bytes() const noexcept { return bytes_; }
  std::int64_t segments() const noexcept { return static_cast<std::int64_t>(segments_.size()); }

private:
  struct Segment {
    RetentionClass kind = RetentionClass::once;
    std::int64_t span = 0;
    std::int64_t bytes = 0;
  };
  using Order = std::pair<std::int64_t, std::uint64_t>; ///< Span, number.

  std::int64_t span_of(std::int64_t expires_us) const noexcept;
  SegmentId drop_first();

  SegmentOptions options_;
  std::map<Order, Segment> segments_;                                     ///< By end.
  std::map<std::pair<std::int64_t, RetentionClass>, std::uint64_t> open_; ///< Taking units.
  std::uint64_t next_ = 1;
  std::int64_t bytes_ = 0;
};

} // namespace troupe::sched
