// What a decision costs through the ABI of loadable policies and through its lane, against the same
// decision of a built-in policy in the same run.

#pragma once

#include <cstdint>
#include <string>

namespace troupe::app {

/// Wall time of one decode placement over `ranks` ranks: medians of single calls.
struct LaneBench {
  std::int64_t calls = 0; ///< Of each side.
  std::int64_t ranks = 0;
  std::int64_t pause_us = 0; ///< Before each call of the sleeping lane.
  double builtin_ns = 0;     ///< count_and_kv, linked in.
  double direct_ns = 0;      ///< The same rule behind the ABI, `isolation = "none"`.
  double lane_ns = 0;        ///< `isolation = "lane"`, one call after the other.
  double lane_idle_ns = 0;   ///< The same when its thread sleeps between calls.

  double ratio() const noexcept { return builtin_ns > 0 ? lane_ns / builtin_ns : 0; }
};

LaneBench bench_lane();

std::string bench_text(const LaneBench& bench);
std::string bench_json(const LaneBench& bench);

} // namespace troupe::app
