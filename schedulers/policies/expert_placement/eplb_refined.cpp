#include "schedulers/policies/expert_placement/eplb_refined.hpp"

#include "schedulers/policies/expert_placement/eplb.hpp"
#include "schedulers/policies/expert_placement/layers.hpp"
#include "schedulers/policies/expert_placement/refine.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace troupe::sched {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// Ways to spread `spare` slots over `experts`, or `limit` + 1 when there are more than `limit`.
std::int64_t ways(std::int64_t experts, std::int64_t spare, std::int64_t limit) {
  std::int64_t count = 1; // C(experts - 1 + k, k), whole after each factor.
  for (std::int64_t k = 1; k <= spare; ++k) {
    count = count * (experts - 1 + k) / k;
    if (count > limit) return limit + 1;
  }
  return count;
}

/// The search over one node's pool.
struct Search {
  const FineLoads& loads;
  const std::vector<std::int64_t>& capacity;
  std::int64_t exchanges_max;
  ExpertPool pool = {loads, capacity};
  std::vector<std::vector<std::int32_t>> best = {};
  std::int64_t best_highest = 0;

  void offer(const ExpertPool& filled) {
    if (filled.twins()) return;
    if (best.empty() || filled.highest() < best_highest) {
      best = filled.held();
      best_highest = filled.highest();
    }
  }

  void try_counts(std::span<const std::int64_t> copies) {
    pool.fill(copies);
    if (!best.empty() && pool.mean() >= best_highest) return;
    pool.level(exchanges_max);
    offer(pool);
  }

  /// Tries every way to give `left` more copies to the experts from `expert` on. A way whose
  /// largest share alone reaches the best is left out.
  void enumerate(std::vector<std::int64_t>& copies, std::size_t expert, std::int64_t left) {
    const auto gpus = static_cast<std::int64_t>(capacity.size());
    if (expert + 1 == copies.size()) {
      if (1 + left > gpus) return;
      copies[expert] = 1 + left;
      if (loads.share(static_cast<std::int64_t>(expert), 1 + left) < best_highest) {
        try_counts(copies);
      }
      copies[expert] = 1;
      return;
    }
    for (std::int64_t more = std::min(left, gpus - 1); more >= 0; --more) {
      // Fewer copies only make the share larger.
      if (loads.share(static_cast<std::int64_t>(expert), 1 + more) >= best_highest) break;
      copies[expert] = 1 + more;
      enumerate(copies, expert + 1, left - more);
    }
    copies[expert] = 1;
  }
};

std::vector<std::vector<std::int32_t>> by_gpu(const ExpertTopology& topology,
                                              std::span<const std::int32_t> slots,
                                              std::int64_t first_gpu, std::int64_t gpus,
                                              std::span<const std::int32_t> local) {
  std::vector<std::vector<std::int32_t>> held(at(gpus));
  for (std::int64_t gpu = 0; gpu < gpus; ++gpu) {
    const std::int64_t first = topology.first_slot(first_gpu + gpu);
    for (std::int64_t i = 0; i < topology.slots_of(first_gpu + gpu); ++i)
      held[at(gpu)].push_back(local[at(slots[at(first + i)])]);
  }
  return held;
}

void refine_node(const ExpertTopology& topology, std::span<const std::int64_t> all_loads,
                 std::span<const std::int32_t> experts, std::int64_t first_gpu, std::int64_t gpus,
                 const EplbRefinedOptions& options, std::vector<std::int32_t>& slots) {
  std::vector<std::int64_t> capacity;
  for (std::int64_t gpu = first_gpu; gpu < first_gpu + gpus; ++gpu)
    capacity.push_back(topology.slots_of(gpu));
  const std::int64_t count = std::accumulate(capacity.begin(), capacity.end(), std::int64_t{0});
  std::vector<std::int64_t> weights;
  std::vector<std::int32_t> local(at(topology.experts), -1);
  for (const std::int32_t expert : experts) {
    local[at(expert)] = static_cast<std::int32_t>(weights.size());
    weights.push_back(all_loads[at(expert)]);
  }
  const auto n = static_cast<std::int64_t>(experts.size());
  const FineLoads loads(weights);
  Search search{loads, capacity, options.exchanges_max};

  auto copies = copies_of(replicate(weights, count, gpus), n);
  search.try_counts(copies);
  ExpertPool published(loads, capacity);
  published.take(by_gpu(topology, slots, first_gpu, gpus, local));
  published.level(options.exchanges_max);
  search.offer(published);
  if (search.best.empty()) { // More copies than GPUs: twins cannot be avoided.
    search.best = published.held();
    search.best_highest = published.highest();
  }
  if (ways(n, count - n, options.ways_max) <= options.ways_max) {
    std::fill(copies.begin(), copies.end(), 1);
    search.enumerate(copies, 0, count - n);
  }
  for (std::int64_t gpu = 0; gpu < gpus; ++gpu) {
    auto slot = topology.first_slot(first_gpu + gpu);
    for (const std::int32_t expert : search.best[at(gpu)])
      slots[at(slot++)] = experts[at(expert)];
  }
}

} // namespace

std::vector<std::int32_t> refined_layer(const ExpertTopology& topology,
                                        std::span<const std::int64_t> loads,
                                        const EplbRefinedOptions& options) {
  std::vector<std::int32_t> slots = eplb_layer(topology, loads);
  const auto nodes = experts_by_node(topology, loads);
  const std::int64_t gpus = topology.gpus / static_cast<std::int64_t>(nodes.size());
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    refine_node(topology, loads, nodes[node], static_cast<std::int64_t>(node) * gpus, gpus, options,
                slots);
  }
  return slots;
}

Decision<ExpertLayout> EplbRefinedPlacement::plan(const ExpertQuery& query,
                                                  const PolicyContext& /*ctx*/) noexcept {
  return plan_layers(query, [&](const ExpertLayerView& layer, ExpertLayerPlan& made) {
    made.slots = keep_places(query.topology, layer.current,
                             refined_layer(query.topology, layer.loads, options_));
    const bool same = count_moves(query.topology, layer.current, made.slots) == 0;
    made.change = same ? LayerChange::kept_balanced : LayerChange::moved;
  });
}

} // namespace troupe::sched
