// Owns every request from arrival to its one ending: admission, attempts, deadlines, token log.
//
// The token log (prompt and tokens already answered) is what a lost request goes on from.

#pragma once

#include "schedulers/model/cost_model.hpp"
#include "schedulers/registry/policy_set.hpp"
#include "schedulers/stage/effects.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::sched {

class PolicyRegistry;

struct DriverOptions {
  CostModel cost_model;             ///< Of the prefill ranks: what admission estimates with.
  std::int64_t requests_max = 1024; ///< In the system at once; more are refused (rejected).
  std::uint32_t attempts_max = 3;
  Reservation reservation = Reservation::worst; ///< `expected`: from lengths of finished answers.
  std::int64_t expected_permille = 900;         ///< Quantile of those that is reserved.
  std::int64_t preemptions_max = 8;             ///< Of one request; then it is shielded.
  std::int64_t request_timeout_us = 0;          ///< From arrival to end; 0 = none.
  std::int64_t no_progress_us = 600'000'000;
  std::int64_t stuck_after_us = 30'000'000;
  std::int64_t watch_every_us = 1'000'000; ///< How often silent requests are looked for.
  std::int64_t gap_wait_us = 2'000'000;    ///< A token that overtook an earlier one waits so long.
  std::uint64_t seed = 1;
};

/// A rendered request wants in.
struct Arrive {
  RequestId request{};
  std::string tenant;
  std::int64_t priority = 0;
  Work work;
  std::uint64_t session_hash = 0; ///< Of the conversation; 0 = the tenant's, or one of its own.
};

/// The text worker found a stop string: the request is complete.
struct StopSeen {
  RequestId request{};
};

/// The client, or an interrupt, wants a request stopped.
struct Abandon {
  RequestId request{};
  ErrorCode reason = ErrorCode::cancelled;
};

struct DriverCounts {
  std::int64_t accepted = 0, finished = 0, failed = 0, cancelled = 0, live = 0, rejected = 0;
  std::int64_t stale_dropped = 0, retried = 0, preempted = 0, invalid_decisions = 0;
};

/// Pure state machine of the driver.
///
///   Thread   one owner
///   Cost     O(log requests) an event; the watch timer is O(requests)
///   Errors   never; a request that cannot go on gets a Finish with a code
class DriverStage {
public:
  /// @pre the set was checked: every named policy exists and accepts its options
  DriverStage(const DriverOptions& options, const PolicySet& set, const PolicyRegistry& registry);
  ~DriverStage();

  void on(const Arrive& event, std::int64_t now_us, Effects& effects);
  void on(const Tokens& event, std::int64_t now_us, Effects& effects);
  void on(const Ended& event, std::int64_t now_us, Effects& effects);
  void on(const Load& event, std::int64_t now_us, Effects& effects);
  void on(const StopSeen& event, std::int64_t now_us, Effects& effects);
  void on(const Abandon& event, std::int64_t now_us, Effects& effects);
  void on(const RankUp& event, std::int64_t now_us, Effects& effects);
  void on(const RankDown& event, std::int64_t now_us, Effects& effects);
  /// Ends every request, and every later one, with no_rank.
  void on(const NoRankLeft& event, std::int64_t now_us, Effects& effects);
  void on(const SwapPrepare& event, std::int64_t now_us, Effects& effects);
  void on(const SwapCommit& event, std::int64_t now_us, Effects& effects);
  void on(const SwapAbort& event, std::int64_t now_us, Effects& effects);
  void on(const Timer& event, std::int64_t now_us, Effects& effects);

  const DriverCounts& counts() const noexcept;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace troupe::sched
