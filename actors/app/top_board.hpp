// What a running job looks like from outside at one moment: totals, rates, last decisions.

#pragma once

#include "actors/metrics.hpp"
#include "actors/stage_totals.hpp"

#include <cstdint>
#include <mutex>
#include <vector>

namespace troupe::app {

/// What the driver says of its job.
struct TopJob {
  std::int64_t succeeded = 0; ///< Lines, of all runs.
  std::int64_t failed = 0;    ///< Lines, of all runs.
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t prompt_tokens = 0; ///< Of this run.
  std::int64_t output_tokens = 0; ///< Of this run.
};

/// One moment.
struct TopSample {
  std::int64_t at_us = 0; ///< Clock of the process.
  TopJob job;
  std::int64_t prompt_tokens_per_s = 0; ///< Over the last seconds.
  std::int64_t output_tokens_per_s = 0;
  actors::MetricsSample metrics;
  std::vector<actors::RecentDecision> decisions; ///< The last ones of each stage, oldest first.
};

/// Takes what the driver says of the job and knows the rates. Thread: any.
class TopBoard {
public:
  void publish(const TopJob& job, std::int64_t now_us);
  /// Job and rates; the rest is for others to fill.
  TopSample sample(std::int64_t now_us) const;

private:
  struct Point {
    std::int64_t at_us = 0;
    std::int64_t prompt_tokens = 0;
    std::int64_t output_tokens = 0;
  };

  mutable std::mutex mutex_;
  TopJob job_;
  std::vector<Point> points_; ///< Ascending by time, of the last seconds.
};

} // namespace troupe::app
