// Composes the next engine step of one rank and accounts its kv blocks and state slots.
//
// Role `prefill` reserves prompt and token log, `decode` and `both` what the request's claim says:
// the worst case, or the expected answer, which then grows block by block (preemption.hpp); one
// slot each.

#pragma once

#include "schedulers/model/cost_model.hpp"
#include "schedulers/registry/policy_set.hpp"
#include "schedulers/stage/effects.hpp"
#include "schedulers/stage/expert_reporter.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe::sched {

class PolicyRegistry;

struct RankOptions {
  RankRef rank;
  Role role = Role::both;
  std::string name;
  std::int64_t kv_blocks = 0;
  std::int64_t block_tokens = 64;
  std::int64_t slots = 64;
  std::int64_t step_tokens_max = 512;
  std::int64_t context_max = 0;
  std::int64_t lease_us = 10'000'000;
  std::int64_t pull_again_us = 1'000'000; ///< A pull without answer is repeated.
  CostModel cost_model;
  std::uint64_t seed = 1;
  ExpertReportOptions experts;
};

/// One sequence of a finished step, as in RunStep::entries. The stage fills ref, index and
/// EndReason::length of the token by its own accounts.
struct StepRow {
  RequestRef ref;
  ErrorCode status = ErrorCode::ok;
  std::int64_t length = 0; ///< Positions the slot holds now.
  bool drew = false;
  TokenRow token; ///< When drew; its `end` is set by whoever knows end and stop ids.
};

/// The engine finished the step asked for with RunStep.
struct StepDone {
  std::uint64_t step = 0;
  ErrorCode code = ErrorCode::ok; ///< Of the whole step; rows are empty when it failed.
  std::int64_t compute_us = 0;
  std::vector<StepRow> rows;               ///< As in RunStep::entries.
  ExpertEpoch expert_epoch{};              ///< Map of experts that it ran under.
  std::vector<std::int32_t> expert_counts; ///< [layers, experts] tokens, when they were wanted.
  std::int64_t idle_us = 0; ///< That the engine stood still before it while there was work.
};

/// The answer to ExportSequence.
struct Exported {
  RequestRef ref;
  ErrorCode code = ErrorCode::ok;
  std::string manifest;
};

/// The answer to ImportSequence.
struct Imported {
  RequestRef ref;
  HandoffId handoff{};
  ErrorCode code = ErrorCode::ok;
  Digest digest;
  std::string detail;
  std::int64_t positions = 0; ///< Tokens held.
  std::int64_t answered = 0;  ///< Output tokens so far, the last one not fed yet.
  std::int64_t new_tokens_max = 0;
};

struct RankCounts {
  std::int64_t steps = 0, tokens = 0, busy_us = 0;
  std::int64_t steps_ahead = 0; ///< Of those, planned while another one ran.
  std::int64_t wasted_rows = 0; ///< Of steps, for sequences that had ended or were given up.
  std::int64_t stale_dropped = 0, refused = 0, invalid_decisions = 0, leases_expired = 0;
  std::int64_t preempted = 0;
  std::int64_t kv_blocks_free = 0, kv_blocks_reserved = 0, slots_free = 0, slots_reserved = 0;
};

/// Pure state machine of one rank. One step is in flight, or two where the overlap policy plans
/// ahead; they end in order.
class RankStage {
public:
  RankStage(const RankOptions& options, const PolicySet& set, const PolicyRegistry& registry);
  ~RankStage();

  /// Announces the rank: RankUp to all, first report.
  void start(std::int64_t now_us, Effects& effects);

  void on(const Assign& event, std::int64_t now_us, Effects& effects);
  void on(const RunChunks& event, std::int64_t now_us, Effects& effects);
  void on(const Reserve& event, std::int64_t now_us, Effects& effects);
  void on(const Renew& event, std::int64_t now_us, Effects& effects);
  void on(const Pull& event, std::int64_t now_us, Effects& effects);
  void on(const Adopt& event, std::int64_t now_us, Effects& effects);
  void on(const Release& event, std::int64_t now_us, Effects& effects);
  void on(const StepDone& event, std::int64_t now_us, Effects& effects);
  void on(const Exported& event, std::int64_t now_us, Effects& effects);
  void on(const Imported& event, std::int64_t now_us, Effects& effects);
  void on(const ExpertPlan& event, std::int64_t now_us, Effects& effects);
  void on(const SwapPrepare& event, std::int64_t now_us, Effects& effects);
  void on(const SwapCommit& event, std::int64_t now_us, Effects& effects);
  void on(const SwapAbort& event, std::int64_t now_us, Effects& effects);
  void on(const Timer& event, std::int64_t now_us, Effects& effects);

  const RankCounts& counts() const noexcept;
  /// Whether a sequence waits for its next step, or is in one.
  bool has_work() const noexcept;
  /// Sequences that hold a slot and blocks now.
  std::int64_t sequences() const noexcept;
  /// Blocks and slots agree with their owners: free + used + promised = total, one owner each.
  /// Cost: O(blocks).
  Status check() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace troupe::sched
