#include "schedulers/stage/expert_stage.hpp"

#include "schedulers/core/check.hpp"
#include "schedulers/core/rng.hpp"
#include "schedulers/model/expert_balance.hpp"
#include "schedulers/model/expert_statistics.hpp"
#include "schedulers/model/expert_window.hpp"
#include "schedulers/stage/slot_pack.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace troupe::sched {
namespace {

/// More tokens than an expert can get in one report; sums of such counts do not overflow.
constexpr std::int64_t kCountMax = std::int64_t{1} << 32;

/// A rank in its newest life.
struct Reporter {
  Incarnation incarnation{};
  std::uint64_t step_next = 0; ///< Reports of steps before this one are repeats.
  std::int64_t steps = 0;      ///< Since the last plan.
  std::int64_t looked = 0;     ///< Under the live map, since the last look.
};

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

std::int64_t rounds_of(const ExpertOptions& options) {
  const std::int64_t cells = std::max<std::int64_t>(1, options.layers * options.topology.experts);
  return std::max<std::int64_t>(1, std::min(options.rounds_max, options.round_cells_max / cells));
}

} // namespace

struct ExpertStage::State {
  ExpertOptions options;
  SlotDesk<ExpertSlots> slots;
  Rng rng;
  ExpertCounts counts;
  ExpertStatistics statistics;
  ExpertWindow window;
  std::map<RankId, Reporter> ranks;
  std::vector<std::vector<std::int32_t>> maps;
  ExpertEpoch newest{};                              ///< Highest epoch that anybody named.
  std::int64_t predicted_millionths = 0;             ///< Of the live map; 0 = not known.
  std::vector<std::vector<std::int64_t>> since_look; ///< [layers][experts] under the live map.
  std::vector<bool> bad;                             ///< [layers] since the last plan.
  bool reported = false;                             ///< Anything, since then.
  bool was_early = false;                            ///< One early plan an interval.
  std::uint64_t timer_serial = 0;

  State(const ExpertOptions& given, const PolicySet& set, const PolicyRegistry& registry)
      : options(given), slots({StageKind::experts, {}}, set, registry),
        rng(draw(given.seed, 4, Purpose::policy)),
        statistics(given.layers, given.topology.experts, given.weight_permille),
        window(given.layers, given.topology.experts, rounds_of(given)),
        bad(at(given.layers), false) {
    TROUPE_CHECK(given.interval_us == 0 || check_topology(given.topology).ok(),
                 "the topology was checked before a stage is built from it");
    forget_look();
  }

  // -- reports -----------------------------------------------------------------------------------

  /// The rank that reports, or null when the report is of an old life or a repeat.
  Reporter* current(const ExpertLoads& event) {
    const bool known = ranks.count(event.rank.rank) != 0;
    if (!known && static_cast<std::int64_t>(ranks.size()) >= options.ranks_max) return nullptr;
    if (event.steps < 1) return nullptr;
    Reporter& rank = ranks[event.rank.rank];
    if (event.rank.incarnation < rank.incarnation) return nullptr;
    if (event.rank.incarnation > rank.incarnation) rank = {event.rank.incarnation};
    if (event.first_step < rank.step_next) return nullptr;
    rank.step_next = event.first_step + static_cast<std::uint64_t>(event.steps);
    rank.steps += event.steps;
    return &rank;
  }

  bool possible(const std::vector<std::int64_t>& loads) const {
    return static_cast<std::int64_t>(loads.size()) == options.topology.experts &&
           std::all_of(loads.begin(), loads.end(),
                       [](std::int64_t count) { return count >= 0 && count <= kCountMax; });
  }

  void take(const ExpertLoads& event) {
    ++counts.reports;
    reported = true;
    newest = std::max(newest, event.epoch);
    window.report(event.rank.rank);
    std::vector<bool> seen(at(options.layers), false);
    for (const ExpertLayerLoads& layer : event.layers) {
      const bool in_range = layer.layer >= 0 && layer.layer < options.layers;
      if (!in_range || seen[at(layer.layer)] || !possible(layer.counts)) {
        ++counts.bad_layers;
        if (in_range) bad[at(layer.layer)] = true;
        if (in_range) seen[at(layer.layer)] = true;
        continue;
      }
      seen[at(layer.layer)] = true;
      statistics.add(layer.layer, layer.counts);
      window.add(layer.layer, layer.counts);
      if (is_live(event.epoch)) add_to_look(layer);
    }
    for (std::int64_t layer = 0; layer < options.layers; ++layer) {
      if (seen[at(layer)]) continue;
      ++counts.bad_layers;
      bad[at(layer)] = true;
    }
  }

  // -- realised balance --------------------------------------------------------------------------

  bool is_live(ExpertEpoch epoch) const { return !maps.empty() && epoch == counts.epoch; }

  void add_to_look(const ExpertLayerLoads& layer) {
    auto& sums = since_look[at(layer.layer)];
    for (std::size_t e = 0; e < sums.size(); ++e)
      sums[e] += layer.counts[e];
  }

  void forget_look() {
    since_look.assign(at(options.layers),
                      std::vector<std::int64_t>(at(options.topology.experts), 0));
    for (auto& [id, rank] : ranks)
      rank.looked = 0;
  }

  /// Judges the steps since the last look. True when they are worse than predicted by so much that
  /// the next plan should not wait.
  bool look() {
    ExpertBalance realised;
    for (std::size_t layer = 0; layer < maps.size(); ++layer)
      realised.add(options.topology, maps[layer], since_look[layer]);
    forget_look();
    if (!realised.known()) return false;
    counts.realised_permille = realised.permille();
    return predicted_millionths > 0 &&
           realised.imbalance() - predicted_millionths > options.gap_max_millionths;
  }

  // -- plans -------------------------------------------------------------------------------------

  ExpertQuestion question(std::int64_t now_us) {
    ExpertQuestion out;
    out.context.now_us = now_us;
    out.context.seed = rng.bits();
    out.topology = options.topology;
    out.moves_max = options.moves_max;
    out.costs = options.costs;
    for (const auto& [id, rank] : ranks)
      out.costs.steps = std::max(out.costs.steps, rank.steps);
    for (std::int64_t layer = 0; layer < options.layers; ++layer) {
      ExpertLayer of_layer;
      if (!bad[at(layer)]) {
        of_layer.loads = statistics.mean(layer);
        of_layer.steps = window.of(layer);
      }
      if (!maps.empty()) of_layer.current = maps[at(layer)];
      out.layers.push_back(std::move(of_layer));
    }
    return out;
  }

  void plan(std::int64_t now_us, Effects& effects) {
    look();
    for (std::int64_t layer = 0; layer < options.layers; ++layer) {
      if (!bad[at(layer)]) continue;
      statistics.discard(layer);
      window.forget(layer);
    }
    statistics.close();
    const auto answered = slots.decide(question(now_us), counts.invalid_decisions, effects);
    ++counts.asked;
    Record made = slots->of<ExpertQuestion>().record(answered);
    const auto& layout = answered.decision().value;
    made.value = layout ? layout->moves : 0;
    effects.add(std::move(made));
    if (layout) adopt(*layout, answered.question(), effects);
    bad.assign(bad.size(), false);
    for (auto& [id, rank] : ranks)
      rank.steps = 0;
    reported = false;
  }

  /// The layout becomes the live one, unless it moves nothing.
  void adopt(const ExpertLayout& layout, const ExpertQuestion& question, Effects& effects) {
    ExpertBalance predicted;
    for (std::size_t layer = 0; layer < layout.layers.size(); ++layer) {
      predicted.add(options.topology, layout.layers[layer].slots, question.layers[layer].loads);
      counts.kept_loads += layout.layers[layer].change == LayerChange::kept_loads ? 1 : 0;
    }
    counts.predicted_permille = predicted.permille();
    predicted_millionths = predicted.known() ? predicted.imbalance() : 0;
    if (!maps.empty() && layout.moves == 0) return;
    maps.clear();
    for (const ExpertLayerPlan& layer : layout.layers)
      maps.push_back(layer.slots);
    newest = next(newest);
    counts.epoch = newest;
    ++counts.plans;
    counts.moves += layout.moves;
    for (const auto& [id, rank] : ranks)
      tell({id, rank.incarnation}, effects);
  }

  void tell(const RankRef& rank, Effects& effects) const {
    effects.send_rank(ExpertPlan{rank, counts.epoch, options.topology, maps});
  }

  void set_timer(std::int64_t now_us, Effects& effects) {
    effects.timer(TimerKind::experts, ++timer_serial, now_us + options.interval_us);
  }
};

ExpertStage::ExpertStage(const ExpertOptions& options, const PolicySet& set,
                         const PolicyRegistry& registry)
    : state_(std::make_unique<State>(options, set, registry)) {}

ExpertStage::~ExpertStage() = default;

const ExpertCounts& ExpertStage::counts() const noexcept { return state_->counts; }

const std::vector<std::vector<std::int32_t>>& ExpertStage::maps() const noexcept {
  return state_->maps;
}

void ExpertStage::start(std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  s.slots.announce(effects);
  if (s.options.interval_us > 0) s.set_timer(now_us, effects);
}

void ExpertStage::on(const ExpertLoads& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  Reporter* rank = s.current(event);
  if (rank == nullptr) {
    ++s.counts.stale_dropped;
    return;
  }
  s.take(event);
  if (s.maps.empty()) return;
  if (event.epoch != s.counts.epoch) {
    s.tell(event.rank, effects); // It has not heard of the plan, or began after it.
    return;
  }
  rank->looked += event.steps;
  if (rank->looked < s.options.look_steps || !s.look() || s.was_early) return;
  s.was_early = true;
  ++s.counts.early;
  s.plan(now_us, effects);
}

void ExpertStage::on(const SwapPrepare& event, std::int64_t now_us, Effects& effects) {
  state_->slots.on(event, now_us, effects);
}

void ExpertStage::on(const SwapCommit& event, std::int64_t now_us, Effects& effects) {
  state_->slots.on(event, now_us, effects);
}

void ExpertStage::on(const SwapAbort& event, std::int64_t /*now_us*/, Effects& /*effects*/) {
  state_->slots.on(event);
}

void ExpertStage::on(const Timer& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (event.kind != TimerKind::experts || event.key != s.timer_serial) return;
  s.was_early = false;
  if (s.reported) s.plan(now_us, effects);
  s.set_timer(now_us, effects);
}

} // namespace troupe::sched
