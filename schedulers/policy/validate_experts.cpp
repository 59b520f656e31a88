#include "schedulers/policy/validate_experts.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace troupe::sched {
namespace {

Status broken(std::string what) { return Status(ErrorCode::bad_argument, std::move(what)); }

bool complete(const ExpertTopology& topology, const std::vector<std::int32_t>& slots) {
  if (static_cast<std::int64_t>(slots.size()) != topology.slots) return false;
  std::vector<bool> seen(static_cast<std::size_t>(topology.experts), false);
  for (const std::int32_t expert : slots) {
    if (expert < 0 || expert >= topology.experts) return false;
    seen[static_cast<std::size_t>(expert)] = true;
  }
  for (const bool has : seen) {
    if (!has) return false;
  }
  return true;
}

} // namespace

Status validate(const Decision<ExpertLayout>& decision, const ExpertQuery& query) {
  if (decision.reason == Reason::unset) return broken("a decision carries no reason");
  const bool possible = check_topology(query.topology).ok();
  if (!decision.value) return possible ? broken("no plan for a possible topology") : Status{};
  if (!possible) return broken("a plan for an impossible topology");
  if (decision.value->layers.size() != query.layers.size()) {
    return broken("a plan of another number of layers");
  }
  std::int64_t moves = 0;
  for (std::size_t i = 0; i < query.layers.size(); ++i) {
    const ExpertLayerPlan& layer = decision.value->layers[i];
    if (!complete(query.topology, layer.slots)) {
      return broken("a map that leaves a slot or an expert out");
    }
    const bool had_map =
        complete(query.topology, {query.layers[i].current.begin(), query.layers[i].current.end()});
    const auto current = had_map ? query.layers[i].current : std::span<const std::int32_t>{};
    if (layer.moves != count_moves(query.topology, current, layer.slots)) {
      return broken("a plan that miscounts its moves");
    }
    const bool unknown = !usable_loads(query.layers[i].loads, query.topology.experts);
    if (had_map && unknown && !std::equal(current.begin(), current.end(), layer.slots.begin())) {
      return broken("a new map for a layer whose loads are not known");
    }
    moves += layer.moves;
  }
  return moves == decision.value->moves ? Status{} : broken("a plan that miscounts its moves");
}

} // namespace troupe::sched
