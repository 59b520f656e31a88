// Collects what the experts of all ranks had to do, and says where experts live from now on.
//
// A plan is asked for on a timer, and once in between when the balance of the steps that ran under
// the live map falls behind what was predicted. Source: policies.md section 4.

#pragma once

#include "schedulers/policy/expert_placement.hpp"
#include "schedulers/registry/policy_set.hpp"
#include "schedulers/stage/effects.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace troupe::sched {

class PolicyRegistry;

struct ExpertOptions {
  std::int64_t layers = 0;
  ExpertTopology topology;
  std::int64_t interval_us = 60'000'000;    ///< From plan to plan; 0 = no plan is made.
  std::int64_t weight_permille = 700;       ///< Of the newest interval in the moving mean.
  std::int64_t moves_max = 65'536;          ///< Of a layer and plan; the policy may allow fewer.
  ExpertMoveCosts costs;                    ///< But `steps`, which is what was seen.
  std::int64_t look_steps = 500;            ///< Steps of a rank after which the balance is judged.
  std::int64_t gap_max_millionths = 50'000; ///< Realised over predicted imbalance: more is early.
  std::int64_t rounds_max = 128;            ///< Kept of reports, one of each rank,
  std::int64_t round_cells_max = 1 << 18;   ///< as long as all their integers are no more.
  std::int64_t ranks_max = 4096;            ///< Reports of further ranks are dropped.
  std::uint64_t seed = 1;
};

struct ExpertCounts {
  std::int64_t stale_dropped = 0, invalid_decisions = 0;
  std::int64_t reports = 0;    ///< Taken over.
  std::int64_t bad_layers = 0; ///< Layers of reports that were missing, negative or absurd.
  std::int64_t kept_loads = 0; ///< Layers of plans that kept their map for want of loads.
  std::int64_t asked = 0;      ///< Times the policy was asked.
  std::int64_t early = 0;      ///< Of those, before the timer.
  std::int64_t plans = 0;      ///< Published.
  std::int64_t moves = 0;      ///< Of those.
  ExpertEpoch epoch{};         ///< Of the live plan; 0 = none yet.
  /// Mean over highest GPU load, in thousandths; -1 = not known yet.
  std::int64_t predicted_permille = -1; ///< By the last answer of the policy.
  std::int64_t realised_permille = -1;  ///< Of the last steps that were judged.
};

/// Pure state machine of the manager of experts.
///
///   Thread   one owner
///   Errors   a report that is not current is counted and dropped; a layer of which some counts are
///            missing or impossible keeps its map until a whole interval is known again
class ExpertStage {
public:
  /// @pre check_topology(options.topology), unless no plan is made
  ExpertStage(const ExpertOptions& options, const PolicySet& set, const PolicyRegistry& registry);
  ~ExpertStage();

  /// Says by which set it decides, and sets the first timer. Once, before everything else.
  void start(std::int64_t now_us, Effects& effects);

  void on(const ExpertLoads& event, std::int64_t now_us, Effects& effects);
  void on(const SwapPrepare& event, std::int64_t now_us, Effects& effects);
  void on(const SwapCommit& event, std::int64_t now_us, Effects& effects);
  void on(const SwapAbort& event, std::int64_t now_us, Effects& effects);
  void on(const Timer& event, std::int64_t now_us, Effects& effects);

  const ExpertCounts& counts() const noexcept;
  /// [layers][slots] of the live plan; empty before the first one.
  const std::vector<std::vector<std::int32_t>>& maps() const noexcept;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace troupe::sched
