// Places finished prefills on decode ranks and drives their handoffs.
//
// The view of a rank is advice; the rank itself confirms each reservation.

#pragma once

#include "schedulers/model/cost_model.hpp"
#include "schedulers/registry/policy_set.hpp"
#include "schedulers/stage/effects.hpp"

#include <cstdint>
#include <memory>

namespace troupe::sched {

class PolicyRegistry;

struct DecodeOptions {
  CostModel cost_model;
  std::uint32_t attempts_max = 3; ///< Handoff tries of one request; waiting is no try.
  std::int64_t lease_us = 10'000'000;
  /// Silence of the target that fails a try. It counts as none while the target is in a step.
  std::int64_t handoff_timeout_us = 30'000'000;
  std::int64_t retry_us = 10'000;    ///< A rank that refused counts as full so long at most.
  std::int64_t waiting_max = 4096;   ///< Finished prefills that wait for room.
  std::int64_t cancelled_max = 4096; ///< Remembered cancellations of requests not seen yet.
  std::uint64_t seed = 1;
};

struct DecodeCounts {
  std::int64_t waiting = 0, handing_off = 0, decoding = 0;
  std::int64_t stale_dropped = 0, refused = 0, transfers = 0, in_place = 0, retried = 0;
  std::int64_t invalid_decisions = 0;
};

/// Pure state machine of the decode balancer, with the handoffs inside it.
class DecodeStage {
public:
  DecodeStage(const DecodeOptions& options, const PolicySet& set, const PolicyRegistry& registry);
  ~DecodeStage();

  void on(const PrefillDone& event, std::int64_t now_us, Effects& effects);
  void on(const Cancel& event, std::int64_t now_us, Effects& effects);
  void on(const Reserved& event, std::int64_t now_us, Effects& effects);
  void on(const Refused& event, std::int64_t now_us, Effects& effects);
  void on(const TransferDone& event, std::int64_t now_us, Effects& effects);
  void on(const Adopted& event, std::int64_t now_us, Effects& effects);
  void on(const RankReport& event, std::int64_t now_us, Effects& effects);
  void on(const RankUp& event, std::int64_t now_us, Effects& effects);
  void on(const RankDown& event, std::int64_t now_us, Effects& effects);
  void on(const SwapPrepare& event, std::int64_t now_us, Effects& effects);
  void on(const SwapCommit& event, std::int64_t now_us, Effects& effects);
  void on(const SwapAbort& event, std::int64_t now_us, Effects& effects);
  void on(const Timer& event, std::int64_t now_us, Effects& effects);

  const DecodeCounts& counts() const noexcept;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace troupe::sched
