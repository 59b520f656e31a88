#include "schedulers/policies/expert_placement/eplb.hpp"

#include "schedulers/model/integer_math.hpp"
#include "schedulers/policies/expert_placement/layers.hpp"
#include "schedulers/policies/expert_placement/lightest_first.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>

namespace troupe::sched {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// Copies of one node's experts to its GPUs; fills the slots of those GPUs.
void place_node(const ExpertTopology& topology, const FineLoads& fine,
                std::span<const std::int32_t> experts, std::int64_t first_gpu, std::int64_t gpus,
                std::vector<std::int32_t>& slots) {
  std::vector<std::int64_t> capacity;
  for (std::int64_t gpu = first_gpu; gpu < first_gpu + gpus; ++gpu)
    capacity.push_back(topology.slots_of(gpu));
  const std::int64_t count = std::accumulate(capacity.begin(), capacity.end(), std::int64_t{0});
  std::vector<std::int64_t> weights;
  for (const std::int32_t expert : experts)
    weights.push_back(fine.of(expert));
  const auto copies = replicate(weights, count, std::numeric_limits<std::int64_t>::max());
  const auto times = copies_of(copies, static_cast<std::int64_t>(experts.size()));
  std::vector<std::int64_t> shares;
  for (const std::int32_t local : copies)
    shares.push_back(weights[at(local)] / times[at(local)]);
  const Packing packing = pack(shares, capacity);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const std::int64_t gpu = first_gpu + packing.bin[i];
    slots[at(topology.first_slot(gpu) + packing.rank[i])] = experts[at(copies[i])];
  }
}

} // namespace

Packing pack(std::span<const std::int64_t> weights, std::span<const std::int64_t> capacity) {
  Packing packing;
  packing.bin.assign(weights.size(), 0);
  packing.rank.assign(weights.size(), 0);
  const bool one_each =
      std::all_of(capacity.begin(), capacity.end(), [](auto n) { return n == 1; });
  if (one_each) {
    std::iota(packing.bin.begin(), packing.bin.end(), 0);
    return packing;
  }
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  std::vector<std::int64_t> held(capacity.size(), 0);
  LightestFirst bins;
  for (std::size_t bin = 0; bin < capacity.size(); ++bin) {
    if (capacity[bin] > 0) bins.add(0, bin);
  }
  for (const std::size_t item : order) {
    const LightestFirst::Bin lightest = bins.take();
    packing.bin[item] = static_cast<std::int64_t>(lightest.index);
    packing.rank[item] = held[lightest.index]++;
    if (held[lightest.index] == capacity[lightest.index]) continue;
    bins.add(lightest.load + weights[item], lightest.index);
  }
  return packing;
}

std::vector<std::int32_t> replicate(std::span<const std::int64_t> weights, std::int64_t slots,
                                    std::int64_t copies_max) {
  const auto experts = static_cast<std::int64_t>(weights.size());
  std::vector<std::int32_t> copies(at(slots));
  std::iota(copies.begin(), copies.begin() + experts, 0);
  std::vector<std::int64_t> times(weights.size(), 1);
  const std::int64_t limit = std::max(copies_max, (slots + experts - 1) / experts);
  // A heap with the next one on top: w_a / n_a < w_b / n_b, without a remainder lost; of equal ones
  // the lower index comes first.
  const auto after = [&](std::int32_t a, std::int32_t b) {
    if (ratio_less(weights[at(a)], times[at(a)], weights[at(b)], times[at(b)])) return true;
    return a > b && !ratio_less(weights[at(b)], times[at(b)], weights[at(a)], times[at(a)]);
  };
  std::vector<std::int32_t> heap(weights.size());
  std::iota(heap.begin(), heap.end(), 0);
  std::make_heap(heap.begin(), heap.end(), after);
  for (std::int64_t slot = experts; slot < slots; ++slot) {
    std::pop_heap(heap.begin(), heap.end(), after);
    const std::int32_t best = heap.back();
    copies[at(slot)] = best;
    if (++times[at(best)] < limit) {
      std::push_heap(heap.begin(), heap.end(), after);
    } else {
      heap.pop_back();
    }
  }
  return copies;
}

std::vector<std::vector<std::int32_t>> experts_by_node(const ExpertTopology& topology,
                                                       std::span<const std::int64_t> loads) {
  if (!topology.by_node()) {
    std::vector<std::int32_t> all(at(topology.experts));
    std::iota(all.begin(), all.end(), 0);
    return {all};
  }
  const std::int64_t group_size = topology.experts / topology.groups;
  const std::int64_t groups_per_node = topology.groups / topology.nodes;
  std::vector<std::int64_t> sums(at(topology.groups), 0);
  for (std::int64_t e = 0; e < topology.experts; ++e)
    sums[at(e / group_size)] =
        saturate(static_cast<Int128>(sums[at(e / group_size)]) + loads[at(e)]);
  const std::vector<std::int64_t> capacity(at(topology.nodes), groups_per_node);
  const Packing packing = pack(sums, capacity);
  std::vector<std::vector<std::int32_t>> nodes(
      at(topology.nodes), std::vector<std::int32_t>(at(groups_per_node * group_size)));
  for (std::int64_t group = 0; group < topology.groups; ++group) {
    auto& node = nodes[at(packing.bin[at(group)])];
    for (std::int64_t i = 0; i < group_size; ++i) {
      node[at(packing.rank[at(group)] * group_size + i)] =
          static_cast<std::int32_t>(group * group_size + i);
    }
  }
  return nodes;
}

std::vector<std::int32_t> eplb_layer(const ExpertTopology& topology,
                                     std::span<const std::int64_t> loads) {
  const FineLoads fine(loads);
  const auto nodes = experts_by_node(topology, loads);
  const std::int64_t gpus = topology.gpus / static_cast<std::int64_t>(nodes.size());
  std::vector<std::int32_t> slots(at(topology.slots), -1);
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    place_node(topology, fine, nodes[node], static_cast<std::int64_t>(node) * gpus, gpus, slots);
  }
  return slots;
}

Decision<ExpertLayout> EplbPlacement::plan(const ExpertQuery& query,
                                           const PolicyContext& /*ctx*/) noexcept {
  return plan_layers(query, [&](const ExpertLayerView& layer, ExpertLayerPlan& made) {
    made.slots = eplb_layer(query.topology, layer.loads);
    const bool same = std::equal(made.slots.begin(), made.slots.end(), layer.current.begin(),
                                 layer.current.end());
    made.change = same ? LayerChange::kept_balanced : LayerChange::moved;
  });
}

} // namespace troupe::sched
