// Decides how many copies each expert has and on which GPU they live.
//
// The plan replaces the map of whole layers at a step boundary on all ranks; see
// schedulers/model/expert_map.hpp for what a map is.

#pragma once

#include "schedulers/model/expert_map.hpp"
#include "schedulers/policy/policy.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::sched {

/// One layer: what its experts had to do, and where they are.
struct ExpertLayerView {
  std::span<const std::int64_t> loads;   ///< [experts] tokens, summed over all ranks.
  std::span<const std::int64_t> steps;   ///< [steps, experts] the same by step; may be empty.
  std::span<const std::int32_t> current; ///< [slots] expert of each slot; empty = none yet.
};

/// What moving costs against what balance gains. A layer time of 0 means that it is not known: then
/// the budget alone limits moves.
struct ExpertMoveCosts {
  std::int64_t expert_bytes = 18'800'640;
  std::int64_t link_bytes_per_s = 50'000'000'000; ///< >= 1.
  std::int64_t disturbance_ps = 0;                ///< Of one change of the map.
  std::int64_t layer_ps = 0;                      ///< Experts of one layer and step, balanced.
  std::int64_t steps = 0;                         ///< Until the next plan.
  bool operator==(const ExpertMoveCosts&) const = default;
};

struct ExpertQuery {
  ExpertTopology topology;
  std::span<const ExpertLayerView> layers;
  std::int64_t moves_max = 0; ///< Of each layer that has a map; >= 0. Full plans ignore it.
  ExpertMoveCosts costs;
};

/// What became of a layer.
enum class LayerChange : std::uint8_t {
  placed,        ///< It had no map: every slot is filled.
  moved,         ///< A new map.
  kept_balanced, ///< Nothing better was found.
  kept_loads,    ///< Loads are missing, negative or all zero: a warning for the operator.
  kept_costs,    ///< The moves would cost more than they gain.
};

struct ExpertLayerPlan {
  std::vector<std::int32_t> slots; ///< [slots]
  LayerChange change = LayerChange::kept_balanced;
  std::int64_t moves = 0;                        ///< Experts to fetch.
  std::int64_t imbalance_millionths = 1'000'000; ///< Predicted highest over mean GPU load.
  bool operator==(const ExpertLayerPlan&) const = default;
};

struct ExpertLayout {
  std::vector<ExpertLayerPlan> layers; ///< [layers]
  std::int64_t moves = 0;
  bool operator==(const ExpertLayout&) const = default;
};

/// Plans all layers at once.
///
/// Contract, on top of the one in policy.hpp:
///   Cost     milliseconds for 40 layers of 384 experts
///   Errors   no value with `no_room` when the topology fails check_topology(); a layer with
///            unusable loads keeps its map, and one without a map gets an even one
///   @post    every expert of every layer has a slot; a layer without loads is unchanged
///
/// Source: policies.md section 4.
class ExpertPlacement : public Policy {
public:
  virtual Decision<ExpertLayout> plan(const ExpertQuery& query,
                                      const PolicyContext& ctx) noexcept = 0;
};

/// Time to fetch `moves` experts over one link.
std::int64_t move_ps(const ExpertMoveCosts& costs, std::int64_t moves) noexcept;

/// Whether the lower imbalance saves more time until the next plan than the moves take.
bool worth_moving(const ExpertMoveCosts& costs, std::int64_t before_millionths,
                  std::int64_t after_millionths, std::int64_t moves) noexcept;

} // namespace troupe::sched
