// What goes wrong, as data: drawn per seed within stated ranges, or at stated times.

#pragma once

#include "schedulers/sim/range.hpp"
#include "schedulers/stage/rank_stage.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::sim {

enum class FaultKind : std::uint8_t {
  kill,  ///< The rank dies; after `for_us` it is back in its next life (never when negative).
  pause, ///< The rank's process stands still for `for_us`, then goes on with all its mail.
  stick, ///< The rank's engine works no more, and nobody is told.
  slow,  ///< Its steps take `amount` thousandths of their time.
  lose,  ///< `amount` of a thousand of its messages are lost.
  lag,   ///< Its messages take `amount` microseconds more: what others know of it is stale.
  cut,   ///< A partition: nothing to or from it arrives before the end.
  full,  ///< It refuses all room, whatever it reported.
};

/// Later than any run lasts: where a partition ends that never does.
constexpr std::int64_t kNever = std::int64_t{1} << 60;

/// Name of a kind, as in scenario files.
std::string_view fault_name(FaultKind kind) noexcept;

/// A fault as a scenario states it.
struct FaultSpec {
  FaultKind kind = FaultKind::kill;
  std::string rank; ///< "decode-1", a role for one of its ranks, "" for any.
  Range count = 1;
  Range at_us = 0;
  Range for_us = -1;     ///< Negative: for good.
  Range noticed_us = -1; ///< Until everybody is told that the rank is gone; see Fault.
  Range amount = 0;
};

/// One fault of a run.
struct Fault {
  FaultKind kind = FaultKind::kill;
  RankId rank{};
  std::int64_t at_us = 0;
  std::int64_t for_us = -1;
  /// kill: negative = at once. pause, stick: negative = nobody is told; else the rank is given up
  /// after so long and a new life begins, while the old one may go on later.
  std::int64_t noticed_us = -1;
  std::int64_t amount = 0;
};

/// Ranks that `name` may mean: one name, all of a role, or all. Pure.
std::vector<RankId> ranks_named(const std::string& name,
                                const std::vector<sched::RankOptions>& ranks);

/// The faults of a run. Specs that mean no rank give none. Pure.
std::vector<Fault> draw_faults(const std::vector<FaultSpec>& specs,
                               const std::vector<sched::RankOptions>& ranks, Rng& rng);

} // namespace troupe::sim
