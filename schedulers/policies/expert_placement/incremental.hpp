// Few moves that lower the hottest GPU most: for loads that drift.

#pragma once

#include "schedulers/policies/expert_placement/eplb_refined.hpp"
#include "schedulers/policy/expert_placement.hpp"

#include <cstdint>

namespace troupe::sched {

struct IncrementalOptions {
  /// Moves per layer and plan, below the query's own limit. Unit: moves. Default 32.
  /// Range 0 to 65536. Hot: yes.
  std::int64_t moves_max = 32;
  /// An action must lower the hottest GPU by this share of the mean for each move. Unit: millionths
  /// (written as a number, 0.001 = 0.1 %, to three digits). Default 1000. Range 0 to 1. Hot: yes.
  std::int64_t gain_min_millionths = 1000;
  /// For layers without a map, which are placed anew.
  EplbRefinedOptions fresh;
};

/// Repeats the action with the largest drop of the hottest GPU per move, until the budget is used
/// or no action gains enough: exchange two copies (2 moves), or overwrite a copy of an expert that
/// has others by one more copy of another expert (1 move). No action makes a twin. A layer whose
/// gain does not pay for its moves keeps its map.
///
/// Source: policies.md section 4.4.
class IncrementalPlacement final : public ExpertPlacement {
public:
  explicit IncrementalPlacement(const IncrementalOptions& options) : options_(options) {}

  Decision<ExpertLayout> plan(const ExpertQuery& query, const PolicyContext& ctx) noexcept override;

private:
  IncrementalOptions options_;
};

} // namespace troupe::sched
