// What one rank tells of its experts: counts of its steps, added up, and the map it runs under.

#pragma once

#include "schedulers/stage/effects.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::sched {

struct ExpertReportOptions {
  std::int64_t layers = 0; ///< 0 = nothing is counted.
  std::int64_t experts = 0;
  std::int64_t steps_max = 64;      ///< Steps in one report at most.
  std::int64_t wait_us = 1'000'000; ///< From the first of them to the report at most.
};

/// Makes the reports of one life of a rank. A report holds layers · experts integers, however many
/// steps it covers.
class ExpertReporter {
public:
  ExpertReporter(const RankRef& rank, const ExpertReportOptions& options);

  /// Whether the next step is to be counted.
  bool counts() const noexcept { return options_.layers > 0; }
  /// Of the map that the next step runs under.
  ExpertEpoch epoch() const noexcept { return epoch_; }

  /// Takes over a newer plan; false when it is none, or its maps are not of this model.
  bool take(const ExpertPlan& plan);

  /// Adds what a step counted under the map of `epoch`; sends a report when it is time.
  ///
  /// @param counts  [layers, experts]; of another size, the report says nothing of any layer
  void count(std::uint64_t step, ExpertEpoch epoch, std::span<const std::int32_t> counts,
             std::int64_t now_us, Effects& effects);

  /// A timer of TimerKind::experts: reports what waited for `wait_us`.
  void wake(std::uint64_t key, Effects& effects);

private:
  void report(Effects& effects);

  RankRef rank_;
  ExpertReportOptions options_;
  ExpertEpoch epoch_{};         ///< Of the newest plan.
  ExpertEpoch counted_epoch_{}; ///< Of the steps below.
  std::uint64_t first_step_ = 0;
  std::int64_t steps_ = 0;
  bool whole_ = true; ///< Each of those steps had all counts.
  std::uint64_t serial_ = 0;
  std::vector<std::int64_t> sums_; ///< [layers, experts]
};

} // namespace troupe::sched
