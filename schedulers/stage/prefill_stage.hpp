// Queue of waiting requests, one routing decision each, and slices for each rank that asks.
//
// A request is routed once, before its first chunk; its KV then lives on that rank. Ranks pull.

#pragma once

#include "schedulers/model/cost_model.hpp"
#include "schedulers/registry/policy_set.hpp"
#include "schedulers/stage/effects.hpp"

#include <cstdint>
#include <memory>

namespace troupe::sched {

class PolicyRegistry;

struct PrefillOptions {
  CostModel cost_model;
  std::int64_t queue_max = 1024;  ///< Waiting requests; more end with `rejected`.
  std::uint32_t attempts_max = 3; ///< Assignments tried at once before waiting again.
  std::int64_t retry_us = 10'000; ///< Wait before trying again what no rank could take.
  /// An Assign without answer is repeated so often, attempts_max times in all; then the rank counts
  /// as lost for this request. Longer than any step: a rank answers between steps.
  std::int64_t assign_again_us = 60'000'000;
  /// A rank gives up a prefill that was not renewed for so long. 0 = without limit.
  std::int64_t lease_us = 10'000'000;
  std::uint64_t seed = 1;
};

struct PrefillCounts {
  std::int64_t waiting = 0, routed = 0, slices = 0;
  std::int64_t stale_dropped = 0, refused = 0, invalid_decisions = 0;
};

/// Pure state machine of the prefill chunker.
class PrefillStage {
public:
  PrefillStage(const PrefillOptions& options, const PolicySet& set, const PolicyRegistry& registry);
  ~PrefillStage();

  void on(const Submit& event, std::int64_t now_us, Effects& effects);
  void on(const AnswersExpected& event, std::int64_t now_us, Effects& effects);
  void on(const Cancel& event, std::int64_t now_us, Effects& effects);
  void on(const Assigned& event, std::int64_t now_us, Effects& effects);
  void on(const Refused& event, std::int64_t now_us, Effects& effects);
  void on(const RankReport& event, std::int64_t now_us, Effects& effects);
  void on(const RankUp& event, std::int64_t now_us, Effects& effects);
  void on(const RankDown& event, std::int64_t now_us, Effects& effects);
  void on(const SwapPrepare& event, std::int64_t now_us, Effects& effects);
  void on(const SwapCommit& event, std::int64_t now_us, Effects& effects);
  void on(const SwapAbort& event, std::int64_t now_us, Effects& effects);
  void on(const Timer& event, std::int64_t now_us, Effects& effects);

  const PrefillCounts& counts() const noexcept;
  /// Requests it knows: waiting, on a rank, or kept by a rank after their prefill.
  std::int64_t requests() const noexcept;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace troupe::sched
