// What one rank does step by step: pulls, plans, what comes of a step, and what it tells of that.
//
// The stage (rank_stage.hpp) adds how sequences come and go.

#pragma once

#include "schedulers/stage/expert_reporter.hpp"
#include "schedulers/stage/preemption.hpp"
#include "schedulers/stage/rank_reporter.hpp"
#include "schedulers/stage/rank_stage.hpp"
#include "schedulers/stage/sequence_table.hpp"
#include "schedulers/stage/step_composer.hpp"
#include "schedulers/stage/step_flights.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::sched {

/// Key of the pull_again timer that only repeats what came free. Steps count from 1.
inline constexpr std::uint64_t kRepeatKey = 0;

struct RankSteps {
  RankOptions options;
  StepComposer composer;
  RankCounts counts;
  SequenceTable table;
  RankReporter reporter;
  ExpertReporter experts;
  StepFlights flights;
  bool repeat_timer = false; ///< A report that only repeats what came free is under way.
  std::uint64_t step_next = 1;
  std::uint64_t pull_timer_step = 0; ///< Step that a pull_again timer is under way for.
  std::optional<RunChunks> answer;   ///< To the pull of step_next.
  std::uint64_t asked_ahead = 0;     ///< Step that the overlap policy was asked about.
  std::uint64_t allowed_ahead = 0;   ///< Step that it wants planned while one runs.
  std::int64_t host_us = 0;          ///< That the engine stood still before the last step.

  RankSteps(const RankOptions& given, const PolicySet& set, const PolicyRegistry& registry);

  bool step_runs() const noexcept { return !flights.none(); }
  /// Whether the step to come may be planned now, as far as steps in flight go.
  bool may_plan() const noexcept {
    return flights.none() || (flights.held() == 1 && allowed_ahead == step_next);
  }
  bool pulls() const noexcept { return prefills(options.role) && may_plan() && !answer; }

  void recount();
  /// Snapshot to everybody who decides about this rank, and the pull when it waits for one.
  void report(std::int64_t now_us, Effects& effects);
  /// Room came back: nobody learns of it from a step, so it is reported now. A sequence that sat
  /// out for want of a block may go on.
  void report_freed(std::int64_t now_us, Effects& effects);

  void lease(Sequence& sequence, std::int64_t lease_us, std::int64_t now_us, Effects& effects);
  /// A timer for the end of the lease, unless one comes before that and looks again.
  static void watch_lease(Sequence& sequence, Effects& effects);

  /// Gives up a sequence and remembers to tell the others once its room is back.
  void drop(Sequence& sequence, Effects& effects);
  void settle(Sequence& sequence, Effects& effects);
  void fail(Sequence& sequence, ErrorCode code, bool retryable, std::string detail,
            Effects& effects);

  /// Starts a step when there is work and, where chunks are pulled, the answer for it. An answer
  /// that left nothing to do is used up, and the next step asked for; where all that decode wait
  /// for blocks on their way, it is kept until those are back. With a step in flight, the next one
  /// is planned if the overlap policy says so.
  void start_step(std::int64_t now_us, Effects& effects);
  /// The oldest step in flight has ended. False when `event` is of another one.
  bool end_step(const StepDone& event, std::int64_t now_us, Effects& effects);
  void prefill_done(Sequence& sequence, std::string manifest, std::int64_t now_us,
                    Effects& effects);

private:
  std::vector<Slice> offered();
  void launch(const std::vector<Slice>& slices, std::int64_t now_us, Effects& effects);
  void ask_ahead(std::int64_t now_us, Effects& effects);
  void plan_ahead(std::int64_t now_us, Effects& effects);
  void preempt(const Preempted& victim, Effects& effects);
  void end_entry(const StepDone& event, const StepEntry& entry, const StepRow* row, Tokens& tokens,
                 std::int64_t now_us, Effects& effects);
  void take_row(Sequence& sequence, const StepEntry& entry, const StepRow& row, Tokens& tokens,
                std::int64_t now_us, Effects& effects);
  void finish_prefill(Sequence& sequence, std::int64_t now_us, Effects& effects);
};

} // namespace troupe::sched
