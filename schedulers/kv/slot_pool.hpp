// Accounts of a rank's state slots: the fixed-size state of one sequence each.

#pragma once

#include "schedulers/core/ids.hpp"
#include "schedulers/core/result.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace troupe::sched {

/// Pool of `total` slots with ids 0 .. total-1; the lowest free id is taken first. A reservation
/// takes its slot at once, so that reserved and used are the same. Memory and check() cost what was
/// ever in use at once, whatever the total.
class SlotPool {
public:
  explicit SlotPool(std::int64_t total);

  /// The lowest free slot, or none.
  [[nodiscard]] std::optional<StateSlotId> take();
  /// @pre the slot is used
  void give_back(StateSlotId slot);

  std::int64_t total() const noexcept { return total_; }
  std::int64_t free() const noexcept { return total_ - used(); }
  std::int64_t used() const noexcept {
    return static_cast<std::int64_t>(used_.size() - returned_.size());
  }

  /// Each id exactly once free or used.
  Status check() const;

private:
  std::int64_t total_ = 0;
  std::vector<bool> used_;         ///< Of the slots ever taken, which come first; the rest is free.
  std::set<StateSlotId> returned_; ///< Free ones among them.
};

} // namespace troupe::sched
