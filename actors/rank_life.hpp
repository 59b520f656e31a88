// One life of a rank as others see it: its actor, whether it works, what it did and holds.

#pragma once

#include "actors/caf_compat.hpp"
#include "schedulers/core/ids.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace troupe::actors {

/// Signs of life of one incarnation, and the fence around it. Its actor and the lane of its engine
/// work at the same time and beat each for itself; its supervisor fences. Thread: any.
class RankPulse {
public:
  /// Odd while a piece of work is under way; it grows with each begin and each end.
  using Beat = std::atomic<std::uint64_t>;

  /// Around every piece of work; an exception ends it too.
  class Work {
  public:
    explicit Work(Beat& beat) : beat_(beat) { ++beat_; }
    ~Work() { ++beat_; }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

  private:
    Beat& beat_;
  };

  Beat& actor() noexcept { return actor_; }
  Beat& lane() noexcept { return lane_; }

  /// The life is given up: its actor ends at its next step and says nothing more.
  void fence() noexcept { fenced_ = true; }
  bool fenced() const noexcept { return fenced_; }

private:
  Beat actor_{0};
  Beat lane_{0};
  std::atomic<bool> fenced_{false};
};

/// What a rank did in all its lives, and what its current one holds. Thread: any.
struct RankTotals {
  std::atomic<std::int64_t> steps{0};
  std::atomic<std::int64_t> busy_us{0};
  std::atomic<std::int64_t> idle_us{0}; ///< The engine stood still while there was work.
  std::atomic<std::int64_t> steps_ahead{0};
  std::atomic<std::int64_t> preempted{0};
  std::atomic<std::int64_t> kv_blocks_held{0}; ///< Of sequences, after the last event.
  std::atomic<std::int64_t> kv_blocks_free{0};
  std::atomic<std::int64_t> slots_held{0};
  std::atomic<std::int64_t> slots_free{0};
};

struct RankLife {
  RankRef rank;
  caf::actor actor;
  std::shared_ptr<RankPulse> pulse;
  std::shared_ptr<RankTotals> totals;
};

} // namespace troupe::actors
