// What one scheduling step of a rank full of decoding sequences costs: everything between the
// tokens of one engine step and the arrays of the next, and what its driver does with the tokens.

#pragma once

#include "actors/app/bench_figure.hpp"
#include "actors/token_log.hpp"
#include "engine/step.hpp"

#include <cstdint>
#include <vector>

namespace troupe::app {

/// The least that a step of `sequences` decoding sequences can be: the plan of the engine, the logs
/// and the message to the driver that the rank makes too, but as flat arrays that stay from step to
/// step, of which only entries that change are written. Nobody decides, checks or accounts.
class PlainSteps {
public:
  PlainSteps(std::int64_t sequences, std::int64_t context_tokens);

  /// One step that draws `token` for all: it goes to the logs, is held against the ends, streamed,
  /// and fed next; a block is taken every 64 positions. Returns how many ended with it.
  std::int64_t step(std::int32_t token);

  const engine::StepPlan& plan() const noexcept { return plan_; }
  const std::vector<sched::TokenRow>& streamed() const noexcept { return streamed_; }

private:
  engine::StepPlan plan_; ///< The spans into its block table have room behind them.
  std::vector<actors::SequenceLog> logs_;
  std::vector<sched::TokenRow> streamed_; ///< Of the last step.
  std::int32_t block_next_ = 0;
};

/// With 256 sequences of 2,000 to 6,000 tokens: what the rank does between two engine steps
/// (schedule, build, post: stage, plan, token log; goal 10 floors), what the driver's thread does
/// with the tokens meanwhile, and the growth of the rank's part to 1,024 sequences (goal 5, against
/// 256). Source: performance.md section 7, rows 10 and 10b.
std::vector<BenchFigure> bench_step(std::int64_t rounds);

} // namespace troupe::app
