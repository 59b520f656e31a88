// Accounts of a rank's kv blocks: ids and counts, no bytes.
//
// A block is free, promised (counted, no id yet) or used (has an id and one owner). Growth within a
// promise is certain; growth beyond it needs a free block.

#pragma once

#include "schedulers/core/ids.hpp"
#include "schedulers/core/result.hpp"

#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

namespace troupe::sched {

/// Pool of `total` blocks with ids 0 .. total-1; the lowest free id is taken first.
///
///   Cost     O(log blocks) to take or give back one, O(blocks ever in use at once) to check; so is
///            the memory, whatever the total
///   Errors   misuse (double free, taking without a promise) is a bug
class BlockPool {
public:
  explicit BlockPool(std::int64_t total);

  /// Promises `count` blocks; false, and no change, when so many are not free.
  [[nodiscard]] bool reserve(std::int64_t count);
  /// Takes back a promise. @pre count <= promised()
  void unreserve(std::int64_t count);
  /// Turns one promised block into a used one. @pre promised() >= 1
  KvBlockId take();
  /// Frees used blocks. @pre each is used
  void give_back(std::span<const KvBlockId> blocks);

  std::int64_t total() const noexcept { return total_; }
  std::int64_t used() const noexcept { return touched() - std::ssize(returned_); }
  std::int64_t promised() const noexcept { return promised_; }
  std::int64_t free() const noexcept { return total() - used() - promised_; }

  /// free + used + promised = total, each id exactly once free or used.
  Status check() const;

private:
  /// Ids below were taken at some time; all from here on are free.
  std::int64_t touched() const noexcept { return std::ssize(used_); }

  std::int64_t total_ = 0;
  std::vector<bool> used_;             ///< [touched]
  std::vector<std::int32_t> returned_; ///< Free ids below touched(): a heap, lowest id on top.
  std::int64_t promised_ = 0;
};

} // namespace troupe::sched
