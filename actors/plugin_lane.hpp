// The lane of a loaded policy: a thread that makes its calls, so that one which does not return
// costs a stage its deadline and nothing more.

#pragma once

#include "schedulers/plugin/call_runner.hpp"

#include <cstdint>
#include <memory>

namespace troupe::actors {

/// Runs the calls of `target` on a thread of its own. Null when the system gives no thread.
///
/// The limit of a call counts from its begin on the lane, so that a busy machine is not taken for a
/// slow policy; a call that does not even begin within kLaneStartMaxUs is late too. At the end
/// the target is ended on the lane; a lane that does not come back within kLaneEndMaxUs, or
/// still is in a late call, is left behind: it ends with that call, and its library stays until
/// then.
std::unique_ptr<sched::CallRunner> lane_runner(std::unique_ptr<sched::CallTarget> target);

inline constexpr std::int64_t kLaneStartMaxUs = 500'000;
inline constexpr std::int64_t kLaneEndMaxUs = 1'000'000;

/// Lanes of this process now.
struct LaneCounts {
  std::int64_t live = 0;        ///< With an owner.
  std::int64_t left_behind = 0; ///< Without one, in a call that has not returned.
};
LaneCounts lane_counts() noexcept;

} // namespace troupe::actors
