// What must hold after every event of every run, whatever went wrong.
//
// After an event only what it touched is looked at: its effects, its rank's counts, the counts of
// the stages. The full walk over all blocks and slots comes every `walk_every` events.

#pragma once

#include "schedulers/sim/outcomes.hpp"
#include "schedulers/sim/sim_rank.hpp"
#include "schedulers/stage/decode_stage.hpp"
#include "schedulers/stage/driver_stage.hpp"
#include "schedulers/stage/prefill_stage.hpp"

#include <cstdint>
#include <string>

namespace troupe::sim {

/// Bounds that the invariants hold the run to.
struct Bounds {
  std::int64_t requests_max = 0;
  std::int64_t queue_max = 0;
  std::int64_t waiting_max = 0; ///< Finished prefills that wait for a decode rank.
  std::uint32_t attempts_max = 0;
  PolicyEpoch epoch{1}; ///< Of the first set.
  TokenRule tokens;
  std::int64_t idle_us_max = 0; ///< All ranks idle while a request waits: no longer. 0 = unchecked.
};

/// Keeps the first broken one.
///
///   Names    those of the room's README: conservation, token stream, one ending, causality,
///   bounds,
///            decision, clock, work conservation
///   Cost     O(1) a check but walk(), which is O(blocks) of a rank
class Invariants {
public:
  explicit Invariants(const Bounds& bounds) : bounds_(bounds), live_(bounds.epoch) {}

  /// From now on stages may decide by this set too.
  void swapped(PolicyEpoch epoch) noexcept { live_ = epoch; }

  // -- effects -----------------------------------------------------------------------------------
  void decision(const sched::Record& record, std::int64_t now_us);
  /// Takes the tokens in. Null: no such request.
  void tokens(Outcome* outcome, const sched::Emit& emit);
  void ending(Outcome* outcome, const sched::Finish& finish, std::int64_t now_us);

  // -- after an event ----------------------------------------------------------------------------
  void ascending(std::int64_t before_us, std::int64_t now_us);
  /// @param kv_blocks  what the rank has, by whoever made it; slots likewise
  void rank(const SimRank& rank, std::int64_t kv_blocks, std::int64_t slots);
  void walk(const SimRank& rank);
  void stages(const sched::DriverCounts& driver, const sched::PrefillCounts& prefill,
              const sched::DecodeCounts& decode, std::int64_t arrived);
  /// @param held  sequences on all live ranks
  void work(std::int64_t waiting, std::int64_t held, std::int64_t ranks, bool faulty,
            std::int64_t now_us);

  void fail(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }
  /// The first broken invariant, or empty.
  const std::string& problem() const noexcept { return problem_; }

private:
  Bounds bounds_;
  PolicyEpoch live_; ///< Of the newest set.
  std::int64_t idle_since_us_ = -1;
  std::string problem_;
};

} // namespace troupe::sim
