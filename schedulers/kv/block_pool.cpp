#include "schedulers/kv/block_pool.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>

namespace troupe::sched {

BlockPool::BlockPool(std::int64_t total) : total_(total) {
  TROUPE_CHECK(total >= 0 && total <= std::numeric_limits<std::int32_t>::max(),
               "a pool has 0 to 2^31-1 blocks");
}

bool BlockPool::reserve(std::int64_t count) {
  TROUPE_CHECK(count >= 0, "a reservation is not negative");
  if (count > free()) return false;
  promised_ += count;
  return true;
}

void BlockPool::unreserve(std::int64_t count) {
  TROUPE_CHECK(count >= 0 && count <= promised_, "more taken back than promised");
  promised_ -= count;
}

KvBlockId BlockPool::take() {
  TROUPE_CHECK(promised_ >= 1, "a block is taken only under a promise");
  --promised_;
  if (returned_.empty()) {
    used_.push_back(true);
    return KvBlockId{static_cast<std::int32_t>(touched() - 1)};
  }
  std::pop_heap(returned_.begin(), returned_.end(), std::greater<>{});
  const std::int32_t id = returned_.back();
  returned_.pop_back();
  used_[static_cast<std::size_t>(id)] = true;
  return KvBlockId{id};
}

void BlockPool::give_back(std::span<const KvBlockId> blocks) {
  for (const KvBlockId block : blocks) {
    const std::int32_t id = raw(block);
    TROUPE_CHECK(id >= 0 && id < touched() && used_[static_cast<std::size_t>(id)],
                 "a block is freed once, by its owner");
    used_[static_cast<std::size_t>(id)] = false;
    returned_.push_back(id);
    std::push_heap(returned_.begin(), returned_.end(), std::greater<>{});
  }
}

Status BlockPool::check() const {
  std::vector<bool> seen(used_.size(), false);
  for (const std::int32_t id : returned_) {
    const auto at = static_cast<std::size_t>(id);
    if (at >= used_.size() || seen[at] || used_[at]) {
      return Status(ErrorCode::mismatch, "block " + std::to_string(id) + " is free twice or used");
    }
    seen[at] = true;
  }
  const auto marked = std::count(used_.begin(), used_.end(), true);
  if (marked != used() || free() < 0 || promised_ < 0 || free() + used() + promised_ != total()) {
    return Status(ErrorCode::mismatch, "blocks: free " + std::to_string(free()) + " + used " +
                                           std::to_string(marked) + " + promised " +
                                           std::to_string(promised_) + " is not " +
                                           std::to_string(total()));
  }
  return {};
}

} // namespace troupe::sched
