#include "schedulers/kv/slot_pool.hpp"

#include <cstddef>
#include <limits>

namespace troupe::sched {

SlotPool::SlotPool(std::int64_t total) {
  TROUPE_CHECK(total >= 0 && total <= std::numeric_limits<std::int32_t>::max(),
               "a pool has 0 to 2^31-1 slots");
  used_.assign(static_cast<std::size_t>(total), false);
  for (std::int64_t i = 0; i < total; ++i) {
    free_ids_.insert(free_ids_.end(), StateSlotId{static_cast<std::int32_t>(i)});
  }
}

std::optional<StateSlotId> SlotPool::take() {
  if (free_ids_.empty()) return std::nullopt;
  const StateSlotId slot = *free_ids_.begin();
  free_ids_.erase(free_ids_.begin());
  used_[static_cast<std::size_t>(raw(slot))] = true;
  return slot;
}

void SlotPool::give_back(StateSlotId slot) {
  const std::int32_t id = raw(slot);
  TROUPE_CHECK(id >= 0 && id < total() && used_[static_cast<std::size_t>(id)],
               "a slot is freed once, by its owner");
  used_[static_cast<std::size_t>(id)] = false;
  free_ids_.insert(slot);
}

Status SlotPool::check() const {
  for (std::int64_t i = 0; i < total(); ++i) {
    const bool is_free = free_ids_.count(StateSlotId{static_cast<std::int32_t>(i)}) != 0;
    if (is_free == used_[static_cast<std::size_t>(i)]) {
      return Status(ErrorCode::mismatch, "slot " + std::to_string(i) + " is both free and used");
    }
  }
  return {};
}

} // namespace troupe::sched
