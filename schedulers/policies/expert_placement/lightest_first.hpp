// Bins by their load, the lightest at hand: what packing copies of experts asks for again and
// again.

#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace troupe::sched {

/// A heap of bins; of equal loads the lower index is on top. Cost: O(log bins) to add or take one.
class LightestFirst {
public:
  struct Bin {
    std::int64_t load = 0;
    std::size_t index = 0;
    auto operator<=>(const Bin&) const = default;
  };

  bool empty() const noexcept { return bins_.empty(); }
  void clear() noexcept { bins_.clear(); }

  void add(std::int64_t load, std::size_t index) {
    bins_.push_back({load, index});
    std::push_heap(bins_.begin(), bins_.end(), std::greater<>{});
  }

  /// @pre not empty()
  const Bin& top() const noexcept { return bins_.front(); }
  /// Takes the top out. @pre not empty()
  Bin take() {
    std::pop_heap(bins_.begin(), bins_.end(), std::greater<>{});
    const Bin lightest = bins_.back();
    bins_.pop_back();
    return lightest;
  }

private:
  std::vector<Bin> bins_;
};

} // namespace troupe::sched
