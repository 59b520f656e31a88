#include "schedulers/kv/segment_book.hpp"

#include "schedulers/model/integer_math.hpp"
#include "schedulers/model/queue_estimate.hpp"

#include <algorithm>

namespace troupe::sched {

/// Spans are counted from 0; times before it end in the first one.
std::int64_t SegmentBook::span_of(std::int64_t expires_us) const noexcept {
  return std::max<std::int64_t>(0, expires_us) / std::max<std::int64_t>(1, options_.span_us);
}

SegmentId SegmentBook::append(RetentionClass kind, std::int64_t bytes, std::int64_t expires_us) {
  const std::int64_t span = span_of(expires_us);
  const auto open = open_.find({span, kind});
  if (open != open_.end()) {
    Segment& segment = segments_.at({span, open->second});
    if (add_saturated(segment.bytes, bytes) <= options_.segment_bytes) {
      segment.bytes += bytes;
      bytes_ = add_saturated(bytes_, bytes);
      return SegmentId{open->second};
    }
  }
  const std::uint64_t number = next_++;
  segments_[{span, number}] = {kind, span, bytes};
  open_[{span, kind}] = number;
  bytes_ = add_saturated(bytes_, bytes);
  return SegmentId{number};
}

SegmentId SegmentBook::drop_first() {
  const auto first = segments_.begin();
  const std::uint64_t number = first->first.second;
  const auto open = open_.find({first->second.span, first->second.kind});
  if (open != open_.end() && open->second == number) open_.erase(open);
  bytes_ -= first->second.bytes;
  segments_.erase(first);
  return SegmentId{number};
}

std::vector<SegmentId> SegmentBook::drop_ended(std::int64_t now_us) {
  std::vector<SegmentId> dropped;
  // The units of a span end before its own end.
  while (!segments_.empty() && segments_.begin()->first.first < span_of(now_us))
    dropped.push_back(drop_first());
  return dropped;
}

std::vector<SegmentId> SegmentBook::drop_for(std::int64_t bytes) {
  std::vector<SegmentId> dropped;
  if (options_.bytes_max <= 0) return dropped;
  while (!segments_.empty() && add_saturated(bytes_, bytes) > options_.bytes_max)
    dropped.push_back(drop_first());
  return dropped;
}

bool SegmentBook::worth_copying(std::int64_t now_us, std::int64_t expires_us,
                                std::int64_t ttl_us) const noexcept {
  const std::int64_t left = std::max<std::int64_t>(0, expires_us - now_us);
  return ratio_less(left, std::max<std::int64_t>(1, ttl_us), options_.copy_below_permille, 1000);
}

} // namespace troupe::sched
