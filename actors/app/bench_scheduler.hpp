// What deciding costs: single decisions and a whole step against floors and goals, one decision of
// a loaded policy, the ledger, and events a second of the simulator against a bare heap.

#pragma once

#include "actors/app/bench_figure.hpp"
#include "actors/app/bench_lane.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::app {

/// Medians over rounds that alternate between the two sides.
struct SchedulerBench {
  std::int64_t rounds = 0;
  std::int64_t events = 0;     ///< Of one simulated run.
  std::int64_t requests = 0;   ///< Of one simulated run.
  std::int64_t pending = 0;    ///< Mean length of its event queue: that of the bare heap.
  std::int64_t walk_every = 0; ///< Events between two walks over all accounts of a rank.
  double events_per_s = 0;
  double heap_per_s = 0;            ///< Pop the earliest, push one in its place; nothing else.
  LaneBench lane;                   ///< One decision of a loaded policy.
  std::vector<BenchFigure> figures; ///< Routes, draft lengths, placements, a step.

  std::int64_t decisions = 0; ///< Of one simulated run, with their questions.
  double decision_bytes = 0;  ///< In the ledger, mean.
  double ledger_s = 0;        ///< CPU time to encode and write them.
  double run_s = 0;           ///< CPU time of the simulated run.

  /// Of the simulated run, which decides and does nothing else.
  double ledger_ratio() const noexcept { return run_s > 0 ? ledger_s / run_s : 0; }
  double ratio() const noexcept { return heap_per_s > 0 ? events_per_s / heap_per_s : 0; }
};

/// Four prefill and four decode ranks, 2,000 requests, no faults, invariants after every event.
SchedulerBench bench_scheduler(std::int64_t rounds);

std::string bench_text(const SchedulerBench& bench);
std::string bench_json(const SchedulerBench& bench);

} // namespace troupe::app
