// What one rank tells those who decide about it: its snapshot, and what changed since the last one.

#pragma once

#include "schedulers/stage/sequence_table.hpp"

#include <cstdint>
#include <set>
#include <vector>

namespace troupe::sched {

struct RankOptions;

/// Makes the reports of one life of a rank. What came free is said in two reports, so that one of
/// them may be lost.
class RankReporter {
public:
  /// A prefill moved, or its owner needs to hear where it stands.
  void advanced(const RequestRef& ref) { advanced_.insert(ref); }
  /// Slot and blocks of a sequence came back, or it is not here.
  void freed(const RequestRef& ref) { freed_.push_back(ref); }
  /// A step has ended.
  void stepped(std::int64_t tokens, std::int64_t us) noexcept {
    last_step_tokens_ = tokens;
    last_step_us_ = us;
  }

  /// Something came free that no report told yet.
  bool has_news() const noexcept { return !freed_.empty(); }
  /// The last report told of something for the first time.
  bool should_repeat() const noexcept { return !told_.empty(); }

  /// The next report.
  RankReport make(const RankOptions& options, const SequenceTable& table);

private:
  std::uint64_t seq_ = 0;
  std::int64_t last_step_tokens_ = 0;
  std::int64_t last_step_us_ = 0;
  std::set<RequestRef> advanced_;
  std::vector<RequestRef> freed_;
  std::vector<RequestRef> told_; ///< In the last report for the first time.
};

} // namespace troupe::sched
