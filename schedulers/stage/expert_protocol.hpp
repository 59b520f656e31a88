// Messages between the ranks and the manager of experts: loads in, plans out.
//
// A plan names the home of every copy of every expert, so that a rank that holds only some of them
// finds its own share in it. Source: contracts.md section 1.

#pragma once

#include "schedulers/core/ids.hpp"
#include "schedulers/model/expert_map.hpp"

#include <cstdint>
#include <vector>

namespace troupe::sched {

/// What the experts of one layer had to do.
struct ExpertLayerLoads {
  std::int32_t layer = 0;
  std::vector<std::int64_t> counts; ///< [experts] tokens.
};

/// rank → manager: what its experts had to do in some steps, all of them under one map.
struct ExpertLoads {
  RankRef rank;
  ExpertEpoch epoch{};                  ///< Of that map; 0 = as the rank was loaded.
  std::uint64_t first_step = 0;         ///< Above all steps of the report before.
  std::int64_t steps = 0;               ///< Counted; steps that failed are not.
  std::vector<ExpertLayerLoads> layers; ///< Each layer of the model once.
};

/// manager → rank: experts live there from your next step on.
struct ExpertPlan {
  RankRef rank;
  ExpertEpoch epoch{};
  ExpertTopology topology;
  std::vector<std::vector<std::int32_t>> maps; ///< [layers][slots] expert of each slot.
};

} // namespace troupe::sched
