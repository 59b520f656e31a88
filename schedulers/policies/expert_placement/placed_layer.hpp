// One layer's map while copies are exchanged and overwritten: loads, shares and copies at hand.

#pragma once

#include "schedulers/model/expert_map.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::sched {

/// Loads in units of FineLoads. Each change costs O(copies of the experts it is about).
class PlacedLayer {
public:
  /// @pre `slots` is a map of `topology`; topology and loads outlive this
  PlacedLayer(const ExpertTopology& topology, const FineLoads& loads,
              std::span<const std::int32_t> slots);

  std::span<const std::int32_t> slots() const noexcept { return slots_; }
  std::int32_t expert(std::int64_t slot) const noexcept { return slots_[at(slot)]; }
  std::int64_t gpu(std::int64_t slot) const noexcept { return gpu_[at(slot)]; }
  /// [gpus]
  std::span<const std::int64_t> loads() const noexcept { return load_; }
  std::int64_t load(std::int64_t gpu) const noexcept { return load_[at(gpu)]; }
  std::int64_t copies(std::int32_t expert) const noexcept { return copies_[at(expert)]; }

  /// Of one copy as it is; with one copy more; with one less, where there are others.
  std::int64_t share(std::int32_t expert) const noexcept { return share_[at(expert)]; }
  std::int64_t share_of_more(std::int32_t expert) const noexcept { return more_[at(expert)]; }
  std::int64_t share_of_fewer(std::int32_t expert) const noexcept { return fewer_[at(expert)]; }

  /// Slots whose expert has other copies, ascending.
  std::span<const std::int64_t> spare_slots() const noexcept { return spare_; }
  /// A slot of `expert`; next_slot() goes on from it to its other ones, kNone ends them.
  std::int64_t first_slot(std::int32_t expert) const noexcept { return first_[at(expert)]; }
  std::int64_t next_slot(std::int64_t slot) const noexcept { return next_[at(slot)]; }
  bool holds(std::int64_t gpu, std::int32_t expert) const noexcept {
    std::int64_t slot = first_slot(expert);
    while (slot != kNone && this->gpu(slot) != gpu)
      slot = next_slot(slot);
    return slot != kNone;
  }

  /// The copies in two slots change places. @pre a != b
  void exchange(std::int64_t a, std::int64_t b);
  /// The copy in `slot`, whose expert has others, gives way to one more of `expert`, another one.
  void overwrite(std::int64_t slot, std::int32_t expert);

  static constexpr std::int64_t kNone = -1;

private:
  static std::size_t at(std::int64_t index) noexcept { return static_cast<std::size_t>(index); }

  void link(std::int64_t slot);
  void unlink(std::int64_t slot);
  void refresh_shares(std::int32_t expert);
  /// Adds the shares of an expert to its GPUs, or takes them away. @param sign  1 or -1
  void weigh(std::int32_t expert, std::int64_t sign);
  void refresh_spare(std::int64_t slot);
  void refresh_spares(std::int32_t expert);

  const FineLoads& loads_;
  std::vector<std::int32_t> slots_;
  std::vector<std::int64_t> gpu_;                  ///< [slots]
  std::vector<std::int64_t> load_;                 ///< [gpus]
  std::vector<std::int64_t> copies_;               ///< [experts]
  std::vector<std::int64_t> share_, more_, fewer_; ///< [experts]
  std::vector<std::int64_t> first_;                ///< [experts] a slot
  std::vector<std::int64_t> next_;                 ///< [slots] the next one of the same expert
  std::vector<std::int64_t> spare_;
};

} // namespace troupe::sched
