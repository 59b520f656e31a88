// One registry of counters, gauges and histograms of a process, as Prometheus text.
//
// Names that other engines' users know begin with "vllm:", our own with "troupe_". Totals come as
// samples when the text is wanted; requests and steps are observed one by one, by what stages say.

#pragma once

#include "actors/stage_totals.hpp"
#include "schedulers/stage/driver_stage.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe::actors {

/// Of one rank, as it stands.
struct RankSample {
  std::string name; ///< "prefill-0": the label `engine`.
  std::int64_t kv_blocks_held = 0;
  std::int64_t kv_blocks_total = 0;
  std::int64_t block_tokens = 0;
  std::int64_t slots_held = 0;
  std::int64_t slots_total = 0;
  std::int64_t steps = 0;
  std::int64_t busy_us = 0;
  std::int64_t preempted = 0;
  std::int64_t idle_us = 0;
  std::int64_t steps_ahead = 0;
};

/// Of one stage, as it stands.
struct StageSample {
  std::string name; ///< "driver", "prefill", "decode", "prefill-0": the label `stage`.
  std::int64_t stale_dropped = 0;
  std::int64_t invalid_decisions = 0;
  std::int64_t retried = 0;
  std::vector<DecisionCount> decisions;
};

/// Of the manager of experts, as it stands.
struct ExpertSample {
  std::int64_t epoch = 0;               ///< Of the live plan; 0 = none.
  std::int64_t predicted_permille = -1; ///< Mean over highest GPU load; -1 = not known.
  std::int64_t realised_permille = -1;  ///< The same of what came.
  std::int64_t reports = 0;
  std::int64_t bad_layers = 0;
  std::int64_t plans = 0;
  std::int64_t moves = 0;
};

/// Totals of a process so far; what was counted in this run unless it says otherwise.
struct MetricsSample {
  std::int64_t lines_succeeded = 0; ///< Of the job, all runs together.
  std::int64_t lines_failed = 0;    ///< Of the job, all runs together.
  std::int64_t requests_running = 0;
  std::int64_t requests_waiting = 0;  ///< Not yet routed to a rank.
  std::int64_t requests_deferred = 0; ///< Of those: held back until the system has room.
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
  std::int64_t messages = 0;
  std::int64_t unexpected_messages = 0;
  std::int64_t scheduling_ns = 0;
  std::int64_t ledger_records = 0;
  std::int64_t ledger_lost = 0;
  std::int64_t rank_losses = 0;    ///< Lives of ranks that ended or were given up.
  std::int64_t rank_restarts = 0;  ///< Lives that were begun after one.
  std::int64_t write_failures = 0; ///< Of the metrics file itself.
  ExpertSample experts;
  std::vector<StageSample> stages;
  std::vector<RankSample> ranks;
};

/// The registry.
///
///   Thread   arrives, finishes and sees: any; sample and text: one at a time
///   Cost     arrives, finishes: about a microsecond, once a request; sees: less, once an event
class Metrics {
public:
  /// @param model_name   label of every vllm: metric
  /// @param engine       label of what belongs to no single rank
  /// @param context_max  tokens; where the buckets of lengths end
  Metrics(const std::string& model_name, const std::string& engine, std::int64_t context_max);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void arrives(const sched::Arrive& arrive);
  void finishes(const sched::Finish& finish);
  /// What the stage of that name (of a rank, the rank's) said in one event at `now_us`, a time of
  /// the clock that a Finish counts by.
  void sees(const std::string& stage, const sched::Effects& effects, std::int64_t now_us);

  /// Takes over totals. A total that is lower than the last one leaves it as it is.
  void sample(const MetricsSample& sample);

  /// Everything in the text exposition format, version 0.0.4.
  std::string text() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace troupe::actors
