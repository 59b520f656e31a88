// What planning one step ahead brings on real engines: idle shares and tokens per second of
// `serial` and `one_ahead`, in turns in one run, over equal answers.

#pragma once

#include "actors/app/job_setup.hpp"
#include "schedulers/core/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::app {

/// One rank under one policy: medians over rounds.
struct OverlapBenchRank {
  std::string name;
  double idle_share = 0;  ///< Idle with work waiting / (that + inside steps).
  double ahead_share = 0; ///< Of its steps, planned while one ran.
  double step_us = 0;     ///< Mean inside a step.
};

struct OverlapBenchRow {
  std::string policy;
  std::vector<OverlapBenchRank> ranks;
  double idle_share = 0; ///< Of all ranks together.
  double tokens_per_s = 0;
};

struct OverlapBench {
  std::int64_t rounds = 0;
  std::int64_t requests = 0;
  std::int64_t tokens = 0; ///< Drawn in each run.
  std::vector<OverlapBenchRow> rows;
  double tokens_ratio = 0; ///< one_ahead to serial, median of the ratios of a round.
};

/// Runs the same requests under both policies in turn, half of them greedy, half seeded.
///
/// Errors: mismatch when any two answers to a request differ in tokens or log-probabilities.
Result<OverlapBench> bench_overlap(const JobSetup& setup, std::int64_t rounds);

std::string bench_text(const OverlapBench& bench);
std::string bench_json(const OverlapBench& bench);

} // namespace troupe::app
