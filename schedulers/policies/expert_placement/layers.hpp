// What all expert placements share: the walk over the layers, and what happens without loads.

#pragma once

#include "schedulers/policy/expert_placement.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace troupe::sched {

/// Slot p holds expert p mod experts: no GPU holds one twice while it has at most that many slots.
inline std::vector<std::int32_t> even_map(const ExpertTopology& topology) {
  std::vector<std::int32_t> slots(static_cast<std::size_t>(topology.slots));
  for (std::size_t i = 0; i < slots.size(); ++i)
    slots[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % topology.experts);
  return slots;
}

/// Whether `slots` is a map of this topology: every slot names an expert, every expert has one.
inline bool is_map(const ExpertTopology& topology, std::span<const std::int32_t> slots) {
  if (static_cast<std::int64_t>(slots.size()) != topology.slots) return false;
  std::vector<bool> seen(static_cast<std::size_t>(topology.experts), false);
  for (const std::int32_t expert : slots) {
    if (expert < 0 || expert >= topology.experts) return false;
    seen[static_cast<std::size_t>(expert)] = true;
  }
  return std::all_of(seen.begin(), seen.end(), [](bool has) { return has; });
}

/// Sets what follows from the slots of a layer.
inline void finish_layer(const ExpertTopology& topology, const ExpertLayerView& layer,
                         ExpertLayerPlan& plan) {
  plan.moves = count_moves(topology, layer.current, plan.slots);
  if (usable_loads(layer.loads, topology.experts)) {
    plan.imbalance_millionths =
        imbalance_millionths(gpu_loads(topology, plan.slots, FineLoads(layer.loads)));
  }
  if (layer.current.empty()) plan.change = LayerChange::placed;
}

/// Asks `place(layer view, plan)` for every layer that has loads. An unusable `current` counts as
/// none.
template <class Place>
Decision<ExpertLayout> plan_layers(const ExpertQuery& query, const Place& place) {
  if (!check_topology(query.topology).ok()) return {std::nullopt, Reason::no_room};
  ExpertLayout plan;
  bool changed = false;
  for (ExpertLayerView layer : query.layers) {
    if (!is_map(query.topology, layer.current)) layer.current = {};
    ExpertLayerPlan made;
    if (!usable_loads(layer.loads, query.topology.experts)) {
      const bool none = layer.current.empty();
      made.slots = none ? even_map(query.topology)
                        : std::vector<std::int32_t>(layer.current.begin(), layer.current.end());
      made.change = LayerChange::kept_loads;
      made.moves = count_moves(query.topology, layer.current, made.slots);
    } else {
      place(layer, made);
      finish_layer(query.topology, layer, made);
    }
    changed = changed || made.moves > 0;
    plan.moves += made.moves;
    plan.layers.push_back(std::move(made));
  }
  return {std::move(plan), changed ? Reason::lowest_score : Reason::nothing_to_do};
}

} // namespace troupe::sched
