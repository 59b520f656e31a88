// What a run did, at its end: counts of the job, times of this run, as text and as JSON.

#pragma once

#include "actors/app/histogram.hpp"
#include "schedulers/core/result.hpp"
#include "schedulers/model/role.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::app {

/// One rank's share of the run.
struct RankSummary {
  std::string name; ///< "prefill-0".
  sched::Role role = sched::Role::both;
  std::int64_t busy_us = 0; ///< Time inside engine steps.
  std::int64_t steps = 0;
};

enum class RunEnd : std::uint8_t { finished, stopped, failed, already_complete };

struct RunSummary {
  std::string job_id; ///< Empty when there is no job.
  RunEnd end = RunEnd::finished;
  // Of the job, all runs together.
  std::int64_t requests_total = -1; ///< -1 unknown.
  std::int64_t requests_succeeded = 0;
  std::int64_t requests_failed = 0;
  std::string errors_file; ///< Where those are.
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  // Of this run.
  std::int64_t run_requests = 0;
  std::int64_t run_prompt_tokens = 0;
  std::int64_t run_completion_tokens = 0;
  Histogram ttft; ///< From arrival in the driver to the first token.
  Histogram tpot; ///< (last token - first token) / (tokens - 1), of answers with two or more.
  std::vector<RankSummary> ranks;
  std::int64_t scheduling_us = 0; ///< Inside stages, all actors together.
  std::int64_t ledger_us = 0;     ///< Of the CPU, to hand entries over, encode and write them.
  std::int64_t steps = 0;         ///< Engine steps of all ranks.
  std::int64_t messages = 0;      ///< Between actors.
  std::int64_t preemptions = 0;   ///< Of all ranks.
  std::int64_t wall_us = 0;
  std::int64_t rank_restarts = 0;
};

/// Several lines for a person, with a hint at configs/throughput.toml when a rank was busy less
/// than 30 % of the time. Pure.
std::string summary_text(const RunSummary& summary);

/// One JSON document without a newline at its end; fields may be added, not renamed. Pure.
std::string summary_json(const RunSummary& summary);

/// Writes summary_json to `path` by a temporary file and a rename.
Status write_summary(const RunSummary& summary, const std::string& path);

} // namespace troupe::app
