#include "schedulers/kv/slot_pool.hpp"

#include <cstddef>
#include <limits>

namespace troupe::sched {

SlotPool::SlotPool(std::int64_t total) : total_(total) {
  TROUPE_CHECK(total >= 0 && total <= std::numeric_limits<std::int32_t>::max(),
               "a pool has 0 to 2^31-1 slots");
}

std::optional<StateSlotId> SlotPool::take() {
  if (free() == 0) return std::nullopt;
  if (returned_.empty()) {
    used_.push_back(true);
    return StateSlotId{static_cast<std::int32_t>(used_.size() - 1)};
  }
  const StateSlotId slot = *returned_.begin();
  returned_.erase(returned_.begin());
  used_[static_cast<std::size_t>(raw(slot))] = true;
  return slot;
}

void SlotPool::give_back(StateSlotId slot) {
  const auto id = static_cast<std::size_t>(raw(slot));
  TROUPE_CHECK(id < used_.size() && used_[id], "a slot is freed once, by its owner");
  used_[id] = false;
  returned_.insert(slot);
}

Status SlotPool::check() const {
  for (std::size_t i = 0; i < used_.size(); ++i) {
    const bool is_free = returned_.count(StateSlotId{static_cast<std::int32_t>(i)}) != 0;
    if (is_free == used_[i]) {
      return Status(ErrorCode::mismatch, "slot " + std::to_string(i) + " is both free and used");
    }
  }
  if (used() >= 0 && free() >= 0) return {};
  return Status(ErrorCode::mismatch,
                "slots: " + std::to_string(used()) + " are used of " + std::to_string(total()));
}

} // namespace troupe::sched
