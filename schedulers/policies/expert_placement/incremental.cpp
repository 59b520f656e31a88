#include "schedulers/policies/expert_placement/incremental.hpp"

#include "schedulers/model/integer_math.hpp"
#include "schedulers/policies/expert_placement/layers.hpp"
#include "schedulers/policies/expert_placement/placed_layer.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

namespace troupe::sched {
namespace {

/// What could be done next. `moves` 0 is nothing.
struct Action {
  std::int64_t slot = 0;  ///< Gets `expert`.
  std::int64_t other = 0; ///< An exchange: gets what `slot` had.
  std::int32_t expert = 0;
  std::int64_t moves = 0;
  std::int64_t gain = 0; ///< Of the hottest GPU, against the highest of those it touches.
};

/// A copy that another expert may take the place of.
struct Spare {
  std::int64_t slot = 0;
  std::int64_t gpu = 0;
  std::int32_t expert = 0;
  std::int64_t rest = 0;   ///< Load of its GPU without it.
  std::int64_t others = 0; ///< Highest load of another GPU that holds it, once it is gone.
};

/// An expert of the hottest GPU that could get one more copy elsewhere.
struct Spread {
  std::int64_t slot = 0;
  std::int32_t expert = 0;
  std::int64_t drop = 0;       ///< Of the GPUs that hold it.
  std::int64_t drop_there = 0; ///< Of those but the hottest: 0 when there are none.
};

/// Looks for the action that lowers the hottest GPU most for each move; of equal ones the first by
/// kind (spread, relieve, exchange), then by slots.
class Search {
public:
  Search(const ExpertTopology& topology, const PlacedLayer& layer)
      : topology_(topology), layer_(layer) {
    node_gpus_ = topology_.by_node() ? topology_.gpus / topology_.nodes : topology_.gpus;
  }

  Action best_action(std::int64_t moves_max) {
    const auto loads = layer_.loads();
    hottest_ = std::max_element(loads.begin(), loads.end()) - loads.begin();
    hot_ = layer_.load(hottest_);
    first_ = topology_.first_slot(hottest_);
    end_ = first_ + topology_.slots_of(hottest_);
    best_ = {};
    if (moves_max >= 1) {
      spread();
      relieve();
    }
    if (moves_max >= 2) exchange();
    return best_;
  }

private:
  bool same_node(std::int64_t gpu) const {
    return node_gpus_ == topology_.gpus || gpu / node_gpus_ == hottest_ / node_gpus_;
  }

  /// What a touched GPU must stay below for an action of `moves` to beat the best so far.
  std::int64_t bound(std::int64_t moves) const {
    if (best_.moves == 0) return hot_;
    return hot_ - scale(best_.gain, moves, best_.moves);
  }

  /// Highest load among the GPUs that change when `slot` gets one more copy of `expert`; what is at
  /// or above `limit` is not told apart.
  std::int64_t after_overwrite(std::int64_t slot, std::int32_t expert, std::int64_t limit) const {
    const std::int32_t old = layer_.expert(slot);
    const std::int64_t home = layer_.gpu(slot);
    std::int64_t highest = layer_.load(home) + layer_.share_of_more(expert) - layer_.share(old);
    if (highest >= limit) return highest;
    const std::int64_t drop = layer_.share(expert) - layer_.share_of_more(expert);
    const std::int64_t rise = layer_.share_of_fewer(old) - layer_.share(old);
    for (std::int64_t at = layer_.first_slot(old); at != kNone; at = layer_.next_slot(at)) {
      const std::int64_t gpu = layer_.gpu(at);
      std::int64_t load = layer_.load(gpu) + rise;
      if (load <= highest || gpu == home) continue;
      if (layer_.holds(gpu, expert)) load -= drop;
      highest = std::max(highest, load);
      if (highest >= limit) return highest;
    }
    for (std::int64_t at = layer_.first_slot(expert); at != kNone; at = layer_.next_slot(at)) {
      const std::int64_t load = layer_.load(layer_.gpu(at)) - drop;
      if (load > highest && !layer_.holds(layer_.gpu(at), old)) highest = load;
    }
    return highest;
  }

  /// Takes the overwriting for the best action when all GPUs that it touches end below `limit`.
  bool offer(std::int64_t slot, std::int32_t expert, std::int64_t limit) {
    const std::int64_t highest = after_overwrite(slot, expert, limit);
    if (highest >= limit) return false;
    best_ = {slot, 0, expert, 1, hot_ - highest};
    return true;
  }

  /// What the hottest GPU holds, the largest drop first.
  void find_spreads() {
    spreads_.clear();
    for (std::int64_t slot = first_; slot < end_; ++slot) {
      const std::int32_t expert = layer_.expert(slot);
      const std::int64_t drop = layer_.share(expert) - layer_.share_of_more(expert);
      spreads_.push_back({slot, expert, drop, layer_.copies(expert) > 1 ? drop : 0});
    }
    std::sort(spreads_.begin(), spreads_.end(), [](const Spread& a, const Spread& b) {
      return a.drop != b.drop ? a.drop > b.drop : a.slot < b.slot;
    });
  }

  /// Highest load of a GPU but `gpu` and the hottest that holds `expert`, with one copy less of it.
  std::int64_t others_of(std::int32_t expert, std::int64_t gpu) const {
    const std::int64_t rise = layer_.share_of_fewer(expert) - layer_.share(expert);
    std::int64_t others = 0;
    for (std::int64_t at = layer_.first_slot(expert); at != kNone; at = layer_.next_slot(at)) {
      const std::int64_t other = layer_.gpu(at);
      if (other != gpu && other != hottest_) others = std::max(others, layer_.load(other) + rise);
    }
    return others;
  }

  /// Copies outside the hottest GPU whose experts have others, on GPUs of its node; without those
  /// that no expert of the hottest GPU can take the place of.
  void find_spares() {
    spares_.clear();
    std::int64_t least_more = std::numeric_limits<std::int64_t>::max();
    std::int64_t drop_there = 0;
    for (const Spread& one : spreads_) {
      least_more = std::min(least_more, layer_.share_of_more(one.expert));
      drop_there = std::max(drop_there, one.drop_there);
    }
    for (const std::int64_t slot : layer_.spare_slots()) {
      const std::int32_t expert = layer_.expert(slot);
      const std::int64_t gpu = layer_.gpu(slot);
      const std::int64_t rest = layer_.load(gpu) - layer_.share(expert);
      if (rest + least_more >= hot_ || gpu == hottest_ || !same_node(gpu)) continue;
      const std::int64_t others = others_of(expert, gpu);
      if (others - drop_there < hot_) spares_.push_back({slot, gpu, expert, rest, others});
    }
  }

  /// One more copy of an expert of the hottest GPU, over a copy that can be spared elsewhere.
  void spread() {
    find_spreads();
    find_spares();
    std::int64_t best_from = end_; // The slot of the expert that the best one is about.
    for (const Spread& mine : spreads_) {
      // An equal one is better when it is about an earlier slot.
      std::int64_t limit = bound(1) + (best_.moves > 0 && mine.slot < best_from ? 1 : 0);
      const std::int64_t more = layer_.share_of_more(mine.expert);
      for (const Spare& one : spares_) {
        // What the three sides end with at least.
        if (hot_ - mine.drop >= limit) break;
        if (one.rest + more >= limit || one.others - mine.drop_there >= limit) continue;
        if (mine.expert == one.expert || layer_.holds(one.gpu, mine.expert)) continue;
        if (!offer(one.slot, mine.expert, limit)) continue;
        limit = bound(1);
        best_from = mine.slot;
      }
    }
  }

  /// A copy that the hottest GPU can spare gives way to one more copy of the lightest expert.
  void relieve() {
    const auto can_spare = [&](std::int64_t slot) {
      return layer_.copies(layer_.expert(slot)) >= 2;
    };
    std::int64_t slot = first_;
    while (slot < end_ && !can_spare(slot))
      ++slot;
    if (slot == end_) return;
    std::int32_t lightest = -1;
    for (std::int32_t expert = 0; expert < topology_.experts; ++expert) {
      if (lightest >= 0 && layer_.share_of_more(expert) >= layer_.share_of_more(lightest)) continue;
      const bool near = same_node(layer_.gpu(layer_.first_slot(expert)));
      if (near && !layer_.holds(hottest_, expert)) lightest = expert;
    }
    if (lightest < 0) return;
    for (; slot < end_; ++slot) {
      if (can_spare(slot)) offer(slot, lightest, bound(1));
    }
  }

  /// The exchange that leaves the hotter of both GPUs lowest; of equal ones that of the lower
  /// slots.
  void exchange() {
    // The lightest GPU first: what it can do leaves little for most others to look at.
    std::int64_t lightest = -1;
    for (std::int64_t gpu = 0; gpu < topology_.gpus; ++gpu) {
      if (gpu == hottest_ || !same_node(gpu)) continue;
      if (lightest < 0 || layer_.load(gpu) < layer_.load(lightest)) lightest = gpu;
    }
    if (lightest < 0) return;
    std::int64_t limit = bound(2);
    exchange_with(lightest, limit);
    for (std::int64_t gpu = 0; gpu < topology_.gpus; ++gpu) {
      if (gpu == hottest_ || gpu == lightest || !same_node(gpu)) continue;
      // What moves is no less than hottest - limit and no more than limit - gpu.
      if (limit - layer_.load(gpu) < hot_ - limit) continue;
      exchange_with(gpu, limit);
    }
  }

  void exchange_with(std::int64_t gpu, std::int64_t& limit) {
    const std::int64_t begin = topology_.first_slot(gpu);
    const std::int64_t cool = layer_.load(gpu);
    for (std::int64_t other = begin; other < begin + topology_.slots_of(gpu); ++other) {
      const std::int32_t back = layer_.expert(other);
      for (std::int64_t slot = first_; slot < end_; ++slot) {
        const std::int32_t give = layer_.expert(slot);
        const std::int64_t moved = layer_.share(give) - layer_.share(back);
        const std::int64_t highest = std::max(hot_ - moved, cool + moved);
        if (highest > limit) continue;
        const bool is_earlier =
            best_.moves == 2 && std::tie(other, slot) < std::tie(best_.other, best_.slot);
        if (highest == limit && !is_earlier) continue;
        if (layer_.holds(gpu, give) || layer_.holds(hottest_, back)) continue;
        best_ = {slot, other, back, 2, hot_ - highest};
        limit = highest;
      }
    }
  }

  static constexpr std::int64_t kNone = PlacedLayer::kNone;

  const ExpertTopology& topology_;
  const PlacedLayer& layer_;
  std::int64_t node_gpus_ = 1;

  // Of the action that is looked for.
  std::int64_t hottest_ = 0;
  std::int64_t hot_ = 0;             ///< Its load.
  std::int64_t first_ = 0, end_ = 0; ///< Its slots.
  Action best_;
  std::vector<Spread> spreads_;
  std::vector<Spare> spares_;
};

} // namespace

Decision<ExpertLayout> IncrementalPlacement::plan(const ExpertQuery& query,
                                                  const PolicyContext& /*ctx*/) noexcept {
  const std::int64_t budget = std::min(options_.moves_max, query.moves_max);
  return plan_layers(query, [&](const ExpertLayerView& view, ExpertLayerPlan& made) {
    const FineLoads loads(view.loads);
    if (view.current.empty()) {
      made.slots = refined_layer(query.topology, view.loads, options_.fresh);
      return;
    }
    made.slots.assign(view.current.begin(), view.current.end());
    PlacedLayer layer(query.topology, loads, made.slots);
    Search search(query.topology, layer);
    const std::int64_t before = imbalance_millionths(layer.loads());
    const std::int64_t mean = loads.total() / query.topology.gpus;
    const std::int64_t gain_min = scale(mean, options_.gain_min_millionths, 1'000'000);
    std::int64_t used = 0;
    while (used < budget) {
      const Action action = search.best_action(budget - used);
      if (action.moves == 0 || action.gain < multiply_saturated(gain_min, action.moves)) break;
      if (action.moves == 2) {
        layer.exchange(action.slot, action.other);
      } else {
        layer.overwrite(action.slot, action.expert);
      }
      used += action.moves;
    }
    const std::int64_t moves = count_moves(query.topology, view.current, layer.slots());
    if (moves == 0) return;
    if (!worth_moving(query.costs, before, imbalance_millionths(layer.loads()), moves)) {
      made.change = LayerChange::kept_costs;
      return;
    }
    made.slots.assign(layer.slots().begin(), layer.slots().end());
    made.change = LayerChange::moved;
  });
}

} // namespace troupe::sched
