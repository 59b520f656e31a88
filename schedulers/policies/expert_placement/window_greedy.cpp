#include "schedulers/policies/expert_placement/window_greedy.hpp"

#include "schedulers/model/integer_math.hpp"
#include "schedulers/policies/expert_placement/layers.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>

namespace troupe::sched {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// Loads of each step in a fine unit: [steps][experts].
std::vector<FineLoads> fine_steps(std::span<const std::int64_t> steps, std::int64_t experts) {
  std::vector<FineLoads> fine;
  for (std::size_t first = 0; first + at(experts) <= steps.size(); first += at(experts))
    fine.emplace_back(steps.subspan(first, at(experts)));
  return fine;
}

/// How much lower the sum over steps of the highest copy load gets with one more copy: [experts].
/// Only the expert that is highest in a step can lower it there; of equal ones the last is taken
/// as highest.
std::vector<std::int64_t> gains(const std::vector<FineLoads>& steps,
                                const std::vector<std::int64_t>& copies) {
  std::vector<std::int64_t> gain(copies.size(), 0);
  for (const FineLoads& loads : steps) {
    std::int64_t highest = -1;
    std::int64_t second = 0;
    std::size_t top = 0;
    for (std::size_t e = 0; e < copies.size(); ++e) {
      const std::int64_t share = loads.share(static_cast<std::int64_t>(e), copies[e]);
      if (share >= highest) {
        second = std::max<std::int64_t>(0, highest);
        highest = share;
        top = e;
      } else {
        second = std::max(second, share);
      }
    }
    const std::int64_t after = loads.share(static_cast<std::int64_t>(top), copies[top] + 1);
    gain[top] += highest - std::max(second, after);
  }
  return gain;
}

/// [gpus] for each copy in order, the sum over steps of the highest load kept lowest.
struct Filler {
  const ExpertTopology& topology;
  const std::vector<FineLoads>& steps;
  const std::vector<std::int64_t>& copies;
  std::vector<std::vector<std::int64_t>> load = {}; ///< [gpus][steps]
  std::vector<std::int64_t> highest = {};           ///< [steps]
  std::vector<std::int64_t> held = {};              ///< [gpus]

  void place(std::int32_t expert, std::vector<std::int32_t>& slots) {
    std::vector<std::int64_t> shares;
    for (const FineLoads& loads : steps)
      shares.push_back(loads.share(expert, copies[at(expert)]));
    std::int64_t best = -1;
    std::int64_t best_sum = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t gpu = 0; gpu < topology.gpus; ++gpu) {
      if (held[at(gpu)] == topology.slots_of(gpu)) continue;
      std::int64_t sum = 0;
      for (std::size_t s = 0; s < shares.size(); ++s)
        sum += std::max(highest[s], load[at(gpu)][s] + shares[s]);
      if (sum < best_sum) {
        best = gpu;
        best_sum = sum;
      }
    }
    for (std::size_t s = 0; s < shares.size(); ++s) {
      load[at(best)][s] += shares[s];
      highest[s] = std::max(highest[s], load[at(best)][s]);
    }
    slots[at(topology.first_slot(best) + held[at(best)]++)] = expert;
  }
};

/// Not negative, and small enough that all steps have the same fine unit and their sum fits.
bool usable_steps(std::span<const std::int64_t> steps) {
  constexpr Int128 kTotalMax = Int128{1} << 41;
  Int128 total = 0;
  for (const std::int64_t load : steps) {
    if (load < 0) return false;
    total += load;
  }
  return total < kTotalMax;
}

} // namespace

std::vector<std::int32_t> window_greedy_layer(const ExpertTopology& topology,
                                              std::span<const std::int64_t> steps) {
  const std::vector<FineLoads> fine = fine_steps(steps, topology.experts);
  std::vector<std::int64_t> copies(at(topology.experts), 1);
  for (std::int64_t spare = topology.slots - topology.experts; spare > 0; --spare) {
    const std::vector<std::int64_t> gain = gains(fine, copies);
    ++copies[at(std::max_element(gain.begin(), gain.end()) - gain.begin())];
  }
  std::vector<std::int32_t> items;
  std::vector<std::int64_t> weight(copies.size(), 0);
  for (std::size_t e = 0; e < copies.size(); ++e) {
    items.insert(items.end(), at(copies[e]), static_cast<std::int32_t>(e));
    for (const FineLoads& loads : fine)
      weight[e] += loads.share(static_cast<std::int64_t>(e), copies[e]);
  }
  std::stable_sort(items.begin(), items.end(),
                   [&](std::int32_t a, std::int32_t b) { return weight[at(a)] > weight[at(b)]; });
  Filler filler{topology, fine, copies};
  filler.load.assign(at(topology.gpus), std::vector<std::int64_t>(fine.size(), 0));
  filler.highest.assign(fine.size(), 0);
  filler.held.assign(at(topology.gpus), 0);
  std::vector<std::int32_t> slots(at(topology.slots), -1);
  for (const std::int32_t expert : items)
    filler.place(expert, slots);
  return slots;
}

Decision<ExpertLayout> WindowGreedyPlacement::plan(const ExpertQuery& query,
                                                   const PolicyContext& /*ctx*/) noexcept {
  return plan_layers(query, [&](const ExpertLayerView& layer, ExpertLayerPlan& made) {
    const std::size_t experts = at(query.topology.experts);
    std::span<const std::int64_t> steps = layer.steps;
    const std::size_t window = at(options_.window_steps) * experts;
    if (steps.size() % experts != 0) steps = {};
    if (steps.size() > window) steps = steps.last(window);
    if (!usable_steps(steps)) steps = {};
    made.slots = window_greedy_layer(query.topology, steps.empty() ? layer.loads : steps);
    const bool same = std::equal(made.slots.begin(), made.slots.end(), layer.current.begin(),
                                 layer.current.end());
    made.change = same ? LayerChange::kept_balanced : LayerChange::moved;
  });
}

} // namespace troupe::sched
