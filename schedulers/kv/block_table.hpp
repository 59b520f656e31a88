// The ordered kv blocks of one sequence and what is still promised to it.

#pragma once

#include "schedulers/core/ids.hpp"
#include "schedulers/kv/block_pool.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::sched {

/// Block table of one sequence; block j holds positions [j, j+1)·block_tokens.
class BlockTable {
public:
  /// @pre `promised` blocks were reserved in the pool for this sequence
  explicit BlockTable(std::int64_t promised = 0) : promised_(promised) {}

  /// `count` more blocks were reserved in the pool for this sequence.
  void promise(std::int64_t count) noexcept { promised_ += count; }

  /// Takes promised blocks until the table has `count`. @pre count <= blocks + promised
  void grow(std::int64_t count, BlockPool& pool) {
    while (static_cast<std::int64_t>(blocks_.size()) < count) {
      TROUPE_CHECK(promised_ >= 1, "a sequence outgrew its reservation");
      blocks_.push_back(pool.take());
      --promised_;
    }
  }

  /// Returns everything, the promise included.
  void release(BlockPool& pool) {
    pool.give_back(blocks_);
    pool.unreserve(promised_);
    blocks_.clear();
    promised_ = 0;
  }

  const std::vector<KvBlockId>& blocks() const noexcept { return blocks_; }
  std::int64_t capacity() const noexcept {
    return static_cast<std::int64_t>(blocks_.size()) + promised_;
  }

private:
  std::vector<KvBlockId> blocks_;
  std::int64_t promised_ = 0;
};

} // namespace troupe::sched
