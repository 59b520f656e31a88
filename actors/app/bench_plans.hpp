// What the larger decisions cost: draft lengths of a step, and placements of experts.

#pragma once

#include "actors/app/bench_figure.hpp"

#include <cstdint>
#include <vector>

namespace troupe::app {

/// Draft lengths of 256 sequences with 5 drafts (goal 20 us, floor: a sort of the survivals);
/// placements of 384 experts in 448 slots on 64 GPUs in 40 layers (floor: a sort of all loads):
/// EPLB and the first plan 20 ms, a plan after one more report 5 ms.
///
/// Source: policies.md section 9.5.
std::vector<BenchFigure> bench_plans(std::int64_t rounds);

} // namespace troupe::app
