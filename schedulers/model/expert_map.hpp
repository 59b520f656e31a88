// Where the copies of experts live: slots on GPUs on nodes, and arithmetic over such maps.
//
// A map is a list of experts, one a slot; the slots of a GPU follow each other.

#pragma once

#include "schedulers/core/result.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::sched {

/// Shape of one layer's placement. When slots do not divide evenly, the first GPUs hold one more.
struct ExpertTopology {
  std::int64_t experts = 0;
  std::int64_t slots = 0;
  std::int64_t gpus = 1;
  std::int64_t groups = 1; ///< Groups of experts that routing limits; 1 = none.
  std::int64_t nodes = 1;  ///< Equal shares of the GPUs with a fast link inside.
  bool operator==(const ExpertTopology&) const = default;

  constexpr std::int64_t first_slot(std::int64_t gpu) const noexcept {
    const std::int64_t extra = slots % gpus;
    return gpu * (slots / gpus) + (gpu < extra ? gpu : extra);
  }
  constexpr std::int64_t slots_of(std::int64_t gpu) const noexcept {
    return slots / gpus + (gpu < slots % gpus ? 1 : 0);
  }
  constexpr std::int64_t gpu_of(std::int64_t slot) const noexcept {
    const std::int64_t low = slots / gpus;
    const std::int64_t extra = slots % gpus;
    return slot < extra * (low + 1) ? slot / (low + 1) : extra + (slot - extra * (low + 1)) / low;
  }
  /// Whether groups, experts, GPUs and slots divide evenly over the nodes: experts then stay with
  /// their group on one node. Otherwise all GPUs are taken as one node.
  constexpr bool by_node() const noexcept {
    return nodes > 1 && groups % nodes == 0 && experts % groups == 0 && gpus % nodes == 0 &&
           slots % gpus == 0;
  }
};

/// An error that says which number is wrong and what would do.
Status check_topology(const ExpertTopology& topology);

/// Loads multiplied by a number that 2 to 16 copies divide, so that shares are exact integers.
class FineLoads {
public:
  explicit FineLoads(std::span<const std::int64_t> loads);

  /// What each of `copies` copies of `expert` carries. @pre copies >= 1
  std::int64_t share(std::int64_t expert, std::int64_t copies) const noexcept {
    const std::int64_t all = fine_[static_cast<std::size_t>(expert)];
    return copies == 1 ? all : all / copies; // Most have one, and a division is slow.
  }
  std::int64_t of(std::int64_t expert) const noexcept {
    return fine_[static_cast<std::size_t>(expert)];
  }
  std::int64_t experts() const noexcept { return static_cast<std::int64_t>(fine_.size()); }
  std::int64_t total() const noexcept { return total_; }
  /// Multiplier of the loads; 0 when they were so large that they had to be divided instead.
  std::int64_t unit() const noexcept { return unit_; }

private:
  std::vector<std::int64_t> fine_;
  std::int64_t total_ = 0;
  std::int64_t unit_ = 1;
};

/// Whether there is one load >= 0 for each expert, and any above 0.
bool usable_loads(std::span<const std::int64_t> loads, std::int64_t experts) noexcept;

/// [experts] copies of each expert in `slots`. @pre every entry names an expert
std::vector<std::int64_t> copies_of(std::span<const std::int32_t> slots, std::int64_t experts);

/// [gpus] in units of `loads`, each expert split evenly over its copies.
std::vector<std::int64_t> gpu_loads(const ExpertTopology& topology,
                                    std::span<const std::int32_t> slots, const FineLoads& loads);

/// Highest over mean GPU load in millionths, >= 1'000'000; 1'000'000 for no load at all.
std::int64_t imbalance_millionths(std::span<const std::int64_t> gpu_loads);

/// Experts that a GPU must fetch because it holds no copy yet; all slots when `before` is empty.
std::int64_t count_moves(const ExpertTopology& topology, std::span<const std::int32_t> before,
                         std::span<const std::int32_t> after);

/// Whether some GPU holds two copies of one expert.
bool has_twins(const ExpertTopology& topology, std::span<const std::int32_t> slots);

/// Renames equal GPUs of a node by their largest overlap with `before`, and leaves what stays on a
/// GPU in its slot: the same placement with fewer moves.
std::vector<std::int32_t> keep_places(const ExpertTopology& topology,
                                      std::span<const std::int32_t> before,
                                      std::vector<std::int32_t> after);

} // namespace troupe::sched
