#include "schedulers/policies/expert_placement/placed_layer.hpp"

#include <algorithm>
#include <utility>

namespace troupe::sched {

PlacedLayer::PlacedLayer(const ExpertTopology& topology, const FineLoads& loads,
                         std::span<const std::int32_t> slots)
    : loads_(loads), slots_(slots.begin(), slots.end()), load_(gpu_loads(topology, slots_, loads)),
      copies_(copies_of(slots_, topology.experts)), share_(at(topology.experts)),
      more_(at(topology.experts)), fewer_(at(topology.experts)),
      first_(at(topology.experts), kNone), next_(at(topology.slots), kNone) {
  gpu_.reserve(at(topology.slots));
  for (std::int64_t gpu = 0; gpu < topology.gpus; ++gpu)
    gpu_.insert(gpu_.end(), at(topology.slots_of(gpu)), gpu);
  for (std::int32_t expert = 0; expert < topology.experts; ++expert)
    refresh_shares(expert);
  for (std::int64_t slot = 0; slot < topology.slots; ++slot) {
    link(slot);
    if (copies(expert(slot)) > 1) spare_.push_back(slot);
  }
}

void PlacedLayer::link(std::int64_t slot) {
  std::int64_t& first = first_[at(expert(slot))];
  next_[at(slot)] = first;
  first = slot;
}

void PlacedLayer::unlink(std::int64_t slot) {
  std::int64_t* place = &first_[at(expert(slot))];
  while (*place != slot)
    place = &next_[at(*place)];
  *place = next_slot(slot);
}

void PlacedLayer::refresh_shares(std::int32_t expert) {
  const std::int64_t count = copies(expert);
  share_[at(expert)] = loads_.share(expert, count);
  more_[at(expert)] = loads_.share(expert, count + 1);
  fewer_[at(expert)] = loads_.share(expert, std::max<std::int64_t>(1, count - 1));
}

void PlacedLayer::weigh(std::int32_t expert, std::int64_t sign) {
  for (std::int64_t slot = first_slot(expert); slot != kNone; slot = next_slot(slot))
    load_[at(gpu(slot))] += sign * share(expert);
}

void PlacedLayer::refresh_spare(std::int64_t slot) {
  const auto place = std::lower_bound(spare_.begin(), spare_.end(), slot);
  const bool was = place != spare_.end() && *place == slot;
  const bool is = copies(expert(slot)) > 1;
  if (is && !was) spare_.insert(place, slot);
  if (was && !is) spare_.erase(place);
}

void PlacedLayer::refresh_spares(std::int32_t expert) {
  for (std::int64_t slot = first_slot(expert); slot != kNone; slot = next_slot(slot))
    refresh_spare(slot);
}

void PlacedLayer::exchange(std::int64_t a, std::int64_t b) {
  const std::int64_t moved = share(expert(a)) - share(expert(b));
  load_[at(gpu(a))] -= moved;
  load_[at(gpu(b))] += moved;
  unlink(a);
  unlink(b);
  std::swap(slots_[at(a)], slots_[at(b)]);
  link(a);
  link(b);
  refresh_spare(a);
  refresh_spare(b);
}

void PlacedLayer::overwrite(std::int64_t slot, std::int32_t expert) {
  const std::int32_t old = this->expert(slot);
  weigh(old, -1);
  weigh(expert, -1);
  unlink(slot);
  slots_[at(slot)] = expert;
  link(slot);
  --copies_[at(old)];
  ++copies_[at(expert)];
  refresh_shares(old);
  refresh_shares(expert);
  weigh(old, 1);
  weigh(expert, 1);
  refresh_spares(old);
  refresh_spares(expert);
}

} // namespace troupe::sched
