#include "schedulers/policies/expert_placement/incremental.hpp"

#include "schedulers/model/integer_math.hpp"
#include "schedulers/policies/expert_placement/layers.hpp"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

namespace troupe::sched {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

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
  std::int64_t others = 0; ///< Highest load of a GPU that holds another copy, once it is gone.
};

/// A layer's map while it changes.
class Layer {
public:
  Layer(const ExpertTopology& topology, const FineLoads& loads, std::vector<std::int32_t> slots)
      : topology_(topology), loads_(loads), slots_(std::move(slots)) {
    copies_ = copies_of(slots_, topology_.experts);
    load_ = gpu_loads(topology_, slots_, loads_);
    hosts_.resize(at(topology_.experts));
    for (std::int64_t slot = 0; slot < topology_.slots; ++slot) {
      gpu_.push_back(topology_.gpu_of(slot));
      hosts_[at(slots_[at(slot)])].push_back(gpu_.back());
    }
    share_.resize(at(topology_.experts));
    more_.resize(at(topology_.experts));
    fewer_.resize(at(topology_.experts));
    for (std::int32_t expert = 0; expert < topology_.experts; ++expert)
      refresh(expert);
    node_gpus_ = topology_.by_node() ? topology_.gpus / topology_.nodes : topology_.gpus;
  }

  const std::vector<std::int32_t>& slots() const noexcept { return slots_; }
  std::int64_t imbalance() const { return imbalance_millionths(load_); }

  Action best_action(std::int64_t moves_max) const {
    const std::int64_t hottest = std::max_element(load_.begin(), load_.end()) - load_.begin();
    Action best;
    if (moves_max >= 1) {
      spread(hottest, best);
      relieve(hottest, best);
    }
    if (moves_max >= 2) exchange(hottest, best);
    return best;
  }

  void apply(const Action& action) {
    const std::int64_t home = gpu_[at(action.slot)];
    const std::int32_t old = slots_[at(action.slot)];
    if (action.moves == 2) {
      const std::int64_t away = gpu_[at(action.other)];
      const std::int64_t moved = share_[at(old)] - share_[at(action.expert)];
      load_[at(home)] -= moved;
      load_[at(away)] += moved;
      replace_host(action.expert, away, home);
      replace_host(old, home, away);
      std::swap(slots_[at(action.slot)], slots_[at(action.other)]);
      return;
    }
    weigh(old, -1);
    weigh(action.expert, -1);
    auto& losers = hosts_[at(old)];
    losers.erase(std::find(losers.begin(), losers.end(), home));
    hosts_[at(action.expert)].push_back(home);
    --copies_[at(old)];
    ++copies_[at(action.expert)];
    slots_[at(action.slot)] = action.expert;
    refresh(old);
    refresh(action.expert);
    weigh(old, 1);
    weigh(action.expert, 1);
  }

private:
  bool holds(std::int64_t gpu, std::int32_t expert) const {
    const auto& hosts = hosts_[at(expert)];
    return std::find(hosts.begin(), hosts.end(), gpu) != hosts.end();
  }

  void replace_host(std::int32_t expert, std::int64_t from, std::int64_t to) {
    auto& hosts = hosts_[at(expert)];
    *std::find(hosts.begin(), hosts.end(), from) = to;
  }

  void refresh(std::int32_t expert) {
    share_[at(expert)] = loads_.share(expert, copies_[at(expert)]);
    more_[at(expert)] = loads_.share(expert, copies_[at(expert)] + 1);
    fewer_[at(expert)] = loads_.share(expert, std::max<std::int64_t>(1, copies_[at(expert)] - 1));
  }

  void weigh(std::int32_t expert, std::int64_t sign) {
    for (const std::int64_t gpu : hosts_[at(expert)])
      load_[at(gpu)] += sign * share_[at(expert)];
  }

  bool same_node(std::int64_t a, std::int64_t b) const {
    return node_gpus_ == topology_.gpus || a / node_gpus_ == b / node_gpus_;
  }

  /// What a touched GPU must stay below for an action of `moves` to beat `best`.
  std::int64_t bound(std::int64_t hottest, const Action& best, std::int64_t moves) const {
    if (best.moves == 0) return load_[at(hottest)];
    return load_[at(hottest)] - scale(best.gain, moves, best.moves);
  }

  /// Highest load among the GPUs that change when `slot` gets one more copy of `expert`; what is at
  /// or above `limit` is not told apart.
  std::int64_t after_overwrite(std::int64_t slot, std::int32_t expert, std::int64_t limit) const {
    const std::int32_t old = slots_[at(slot)];
    const std::int64_t home = gpu_[at(slot)];
    std::int64_t highest = load_[at(home)] + more_[at(expert)] - share_[at(old)];
    if (highest >= limit) return highest;
    const std::int64_t drop = share_[at(expert)] - more_[at(expert)];
    const std::int64_t rise = fewer_[at(old)] - share_[at(old)];
    for (const std::int64_t gpu : hosts_[at(old)]) {
      std::int64_t load = load_[at(gpu)] + rise;
      if (load <= highest || gpu == home) continue;
      if (holds(gpu, expert)) load -= drop;
      highest = std::max(highest, load);
      if (highest >= limit) return highest;
    }
    for (const std::int64_t gpu : hosts_[at(expert)]) {
      const std::int64_t load = load_[at(gpu)] - drop;
      if (load > highest && !holds(gpu, old)) highest = load;
    }
    return highest;
  }

  bool offer(std::int64_t slot, std::int32_t expert, std::int64_t hottest, Action& best) const {
    const std::int64_t limit = bound(hottest, best, 1);
    const std::int64_t highest = after_overwrite(slot, expert, limit);
    if (highest >= limit) return false;
    best = {slot, 0, expert, 1, load_[at(hottest)] - highest};
    return true;
  }

  /// Copies outside the hottest GPU whose experts have others, on GPUs of its node.
  std::vector<Spare> spares(std::int64_t hottest) const {
    std::vector<Spare> found;
    for (std::int64_t slot = 0; slot < topology_.slots; ++slot) {
      const std::int32_t expert = slots_[at(slot)];
      const std::int64_t gpu = gpu_[at(slot)];
      if (copies_[at(expert)] < 2 || gpu == hottest || !same_node(gpu, hottest)) continue;
      Spare one{slot, gpu, expert, load_[at(gpu)] - share_[at(expert)], 0};
      const std::int64_t rise = fewer_[at(expert)] - share_[at(expert)];
      for (const std::int64_t other : hosts_[at(expert)]) {
        if (other != gpu) one.others = std::max(one.others, load_[at(other)] + rise);
      }
      found.push_back(one);
    }
    return found;
  }

  /// One more copy of an expert of the hottest GPU, over a copy that can be spared elsewhere.
  void spread(std::int64_t hottest, Action& best) const {
    const std::int64_t first = topology_.first_slot(hottest);
    const std::vector<Spare> spare = spares(hottest);
    for (std::int64_t mine = first; mine < first + topology_.slots_of(hottest); ++mine) {
      const std::int32_t expert = slots_[at(mine)];
      const std::int64_t more = more_[at(expert)];
      const std::int64_t drop = share_[at(expert)] - more;
      std::int64_t limit = bound(hottest, best, 1);
      if (load_[at(hottest)] - drop >= limit) continue; // It drops by no more than this.
      for (const Spare& one : spare) {
        // What the two sides end with at least.
        if (one.rest + more >= limit || one.others - drop >= limit) continue;
        if (expert == one.expert || holds(one.gpu, expert)) continue;
        if (offer(one.slot, expert, hottest, best)) limit = bound(hottest, best, 1);
      }
    }
  }

  /// A copy that the hottest GPU can spare gives way to one more copy of the lightest expert.
  void relieve(std::int64_t hottest, Action& best) const {
    std::int32_t lightest = -1;
    for (std::int32_t expert = 0; expert < topology_.experts; ++expert) {
      if (lightest >= 0 && more_[at(expert)] >= more_[at(lightest)]) continue;
      if (!same_node(hosts_[at(expert)].front(), hottest) || holds(hottest, expert)) continue;
      lightest = expert;
    }
    if (lightest < 0) return;
    const std::int64_t first = topology_.first_slot(hottest);
    for (std::int64_t slot = first; slot < first + topology_.slots_of(hottest); ++slot) {
      if (copies_[at(slots_[at(slot)])] >= 2) offer(slot, lightest, hottest, best);
    }
  }

  /// The exchange that leaves the hotter of both GPUs lowest; of equal ones that of the lower
  /// slots.
  void exchange(std::int64_t hottest, Action& best) const {
    // The lightest GPU first: what it can do leaves little for most others to look at.
    std::int64_t lightest = -1;
    for (std::int64_t gpu = 0; gpu < topology_.gpus; ++gpu) {
      if (gpu == hottest || !same_node(gpu, hottest)) continue;
      if (lightest < 0 || load_[at(gpu)] < load_[at(lightest)]) lightest = gpu;
    }
    if (lightest < 0) return;
    std::int64_t limit = bound(hottest, best, 2);
    exchange_with(lightest, hottest, limit, best);
    for (std::int64_t gpu = 0; gpu < topology_.gpus; ++gpu) {
      if (gpu == hottest || gpu == lightest || !same_node(gpu, hottest)) continue;
      // What moves is no less than hottest - limit and no more than limit - gpu.
      if (limit - load_[at(gpu)] < load_[at(hottest)] - limit) continue;
      exchange_with(gpu, hottest, limit, best);
    }
  }

  void exchange_with(std::int64_t gpu, std::int64_t hottest, std::int64_t& limit,
                     Action& best) const {
    const std::int64_t first = topology_.first_slot(hottest);
    const std::int64_t end = first + topology_.slots_of(hottest);
    const std::int64_t begin = topology_.first_slot(gpu);
    const std::int64_t hot = load_[at(hottest)];
    const std::int64_t cool = load_[at(gpu)];
    for (std::int64_t other = begin; other < begin + topology_.slots_of(gpu); ++other) {
      const std::int32_t back = slots_[at(other)];
      for (std::int64_t slot = first; slot < end; ++slot) {
        const std::int32_t give = slots_[at(slot)];
        const std::int64_t moved = share_[at(give)] - share_[at(back)];
        const std::int64_t highest = std::max(hot - moved, cool + moved);
        if (highest > limit) continue;
        const bool is_earlier =
            best.moves == 2 && std::tie(other, slot) < std::tie(best.other, best.slot);
        if (highest == limit && !is_earlier) continue;
        if (holds(gpu, give) || holds(hottest, back)) continue;
        best = {slot, other, back, 2, hot - highest};
        limit = highest;
      }
    }
  }

  const ExpertTopology& topology_;
  const FineLoads& loads_;
  std::vector<std::int32_t> slots_;
  std::vector<std::int64_t> copies_;             ///< [experts]
  std::vector<std::int64_t> share_;              ///< [experts] of one copy.
  std::vector<std::int64_t> more_;               ///< [experts] of one copy with one copy more.
  std::vector<std::int64_t> fewer_;              ///< [experts] ... with one less, at least one.
  std::vector<std::int64_t> load_;               ///< [gpus]
  std::vector<std::vector<std::int64_t>> hosts_; ///< [experts] GPUs.
  std::vector<std::int64_t> gpu_;                ///< [slots]
  std::int64_t node_gpus_ = 1;
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
    Layer layer(query.topology, loads, made.slots);
    const std::int64_t before = layer.imbalance();
    const std::int64_t mean = loads.total() / query.topology.gpus;
    const std::int64_t gain_min = scale(mean, options_.gain_min_millionths, 1'000'000);
    std::int64_t used = 0;
    while (used < budget) {
      const Action action = layer.best_action(budget - used);
      if (action.moves == 0 || action.gain < multiply_saturated(gain_min, action.moves)) break;
      layer.apply(action);
      used += action.moves;
    }
    const std::int64_t moves = count_moves(query.topology, view.current, layer.slots());
    if (moves == 0) return;
    if (!worth_moving(query.costs, before, layer.imbalance(), moves)) {
      made.change = LayerChange::kept_costs;
      return;
    }
    made.slots = layer.slots();
    made.change = LayerChange::moved;
  });
}

} // namespace troupe::sched
