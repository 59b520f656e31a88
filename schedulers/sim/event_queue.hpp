// What happens when: a binary heap of 16-byte keys over payloads that never move in it.

#pragma once

#include "schedulers/core/check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace troupe::sim {

/// Queue of values by time; equal times come out in the order they went in.
///
///   Cost   O(log pending) a push or pop, 16 bytes moved a level; a value is moved in and out once
template <class T>
class EventQueue {
public:
  void push(std::int64_t due_us, T value) {
    std::uint64_t slot = values_.size();
    if (free_.empty()) {
      TROUPE_CHECK(slot < kSlotsMax, "fewer than 2^24 events are pending");
      values_.push_back(std::move(value));
    } else {
      slot = free_.back();
      free_.pop_back();
      values_[static_cast<std::size_t>(slot)] = std::move(value);
    }
    TROUPE_CHECK(order_ < kOrdersMax, "fewer than 2^40 events in a run");
    heap_.push_back({due_us, order_++ << kSlotBits | slot});
    std::push_heap(heap_.begin(), heap_.end(), Later{});
  }

  bool empty() const noexcept { return heap_.empty(); }
  std::size_t size() const noexcept { return heap_.size(); }

  /// @pre not empty
  std::int64_t next_us() const noexcept { return heap_.front().due_us; }

  /// Takes the earliest value out. @pre not empty
  T pop() {
    std::pop_heap(heap_.begin(), heap_.end(), Later{});
    const std::uint64_t slot = heap_.back().order_and_slot & (kSlotsMax - 1);
    heap_.pop_back();
    free_.push_back(static_cast<std::uint32_t>(slot));
    return std::move(values_[static_cast<std::size_t>(slot)]);
  }

private:
  static constexpr int kSlotBits = 24;
  static constexpr std::uint64_t kSlotsMax = std::uint64_t{1} << kSlotBits;
  static constexpr std::uint64_t kOrdersMax = std::uint64_t{1} << (64 - kSlotBits);

  struct Key {
    std::int64_t due_us = 0;
    std::uint64_t order_and_slot = 0; ///< Orders are distinct, so slots never decide.
  };
  struct Later {
    bool operator()(const Key& a, const Key& b) const noexcept {
      return a.due_us != b.due_us ? a.due_us > b.due_us : a.order_and_slot > b.order_and_slot;
    }
  };

  std::vector<Key> heap_;
  std::vector<T> values_;
  std::vector<std::uint32_t> free_; ///< Slots of values_ without a value.
  std::uint64_t order_ = 0;
};

} // namespace troupe::sim
