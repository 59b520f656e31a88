// Packing of copies on GPUs without twins, and its improvement by exchanges: shared by the
// placements that search.

#pragma once

#include "schedulers/model/expert_map.hpp"
#include "schedulers/policies/expert_placement/lightest_first.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::sched {

/// The copies of some experts on some GPUs, with the load of each GPU. Experts are numbered as in
/// `loads`; GPUs from 0 in this pool.
class ExpertPool {
public:
  /// @param capacity  [gpus] slots
  ExpertPool(const FineLoads& loads, std::vector<std::int64_t> capacity);

  /// Places `copies[e]` copies of each expert: heaviest share first, each on the lightest GPU with
  /// room that has no copy of it yet. @pre the copies fill all slots
  void fill(std::span<const std::int64_t> copies);
  /// Takes a placement as it is. @param held  [gpus] experts of each GPU
  void take(std::vector<std::vector<std::int32_t>> held);

  /// Exchanges a copy of the hottest GPU for one of another as long as that lowers the hotter of
  /// the two, the best exchange first; at most `rounds_max` of them.
  void level(std::int64_t rounds_max);

  std::int64_t highest() const;
  /// Of the loads, rounded up: `highest` never becomes less.
  std::int64_t mean() const;
  /// Whether some GPU holds two copies of one expert.
  bool twins() const;
  const std::vector<std::vector<std::int32_t>>& held() const noexcept { return held_; }

private:
  struct Exchange {
    std::size_t gpu = 0, mine = 0, theirs = 0;
    std::int64_t highest = 0;
  };

  std::int64_t share(std::int32_t expert) const { return share_[static_cast<std::size_t>(expert)]; }
  void set_shares(std::span<const std::int64_t> copies);
  bool has_room(std::size_t gpu) const;
  bool holds(std::size_t gpu, std::int32_t expert) const;
  void add(std::size_t gpu, std::int32_t expert);
  /// On the lightest GPU with room that has no copy of it yet.
  void place(std::int32_t expert);
  /// A GPU for a copy that fits nowhere without a twin: makes room on one by an exchange.
  void squeeze(std::int32_t expert);
  /// The one that leaves the hotter of both lowest; of equal ones the first by GPU, own copy,
  /// theirs.
  Exchange best_exchange(std::size_t hottest) const;
  void exchange_with(std::size_t gpu, std::size_t hottest, Exchange& best) const;

  const FineLoads* loads_;
  std::vector<std::int64_t> capacity_;
  std::vector<std::vector<std::int32_t>> held_;
  std::vector<std::int64_t> load_;
  std::vector<std::int64_t> share_; ///< [experts] of one copy.

  // Of `fill`; kept, because a search fills thousands of times.
  std::vector<std::int32_t> heaviest_;
  LightestFirst gpus_;                     ///< Those with room.
  std::vector<LightestFirst::Bin> passed_; ///< They hold it already.
};

} // namespace troupe::sched
