// What admission sees of the whole prefill side.

#pragma once

#include <cstdint>

namespace troupe::sched {

/// Snapshot of the prefill side; zero ranks means that nothing is known yet.
struct LoadView {
  std::int64_t waiting = 0;
  std::int64_t waiting_tokens = 0; ///< Not yet routed.
  std::int64_t least_work_ps = 0;  ///< Queue estimate of the least loaded rank.
  std::int64_t ranks = 0;
  std::int64_t as_of_us = 0;
  bool operator==(const LoadView&) const = default;
};

} // namespace troupe::sched
