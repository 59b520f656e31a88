// Filter, score, pick from parts: a placement composed in the policy file.

#pragma once

#include "schedulers/core/options.hpp"
#include "schedulers/model/decisions.hpp"
#include "schedulers/model/rank_view.hpp"
#include "schedulers/policy/policy.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace troupe::sched {

/// What one rank counts in one term; lower is better. `place` is its place among the ranks.
using Measure = std::int64_t (*)(const PlacementQuery& query, const RankView& rank,
                                 std::size_t place, const PolicyContext& ctx);

struct NamedMeasure {
  std::string_view name;
  Measure measure;
};

struct ScoreTerm {
  Measure measure = nullptr;
  std::int64_t weight_permille = 1000;
};

struct ScoredOptions {
  /// Filter `headroom`: leave the share of blocks free that other balancers do by default. The
  /// filters `alive` and `has_room` hold whether they are named or not. Default: of a balancer all
  /// three, of a router the two. Hot: yes.
  bool headroom = false;
  /// `best` or `two_choices`. Default best. Hot: yes.
  bool of_two = false;
  /// At least one. Weight: thousandths (written as a number). Default 1000. Range 0 to 1000.
  std::vector<ScoreTerm> terms;
};

/// Reads filters, pick and the terms; `measures` are the terms that the kind knows, the first one
/// is the default. @param headroom  what counts when no filter is named
ScoredOptions scored_options(OptionTable& table, std::span<const NamedMeasure> measures,
                             bool headroom);

/// Lowest sum of weighted terms. Each term is spread over 0 to a million between the lowest and the
/// highest rank that passes, so that terms of different units can be added; a term in which all are
/// equal counts nothing. Ties by id.
Decision<Placement> place_scored(const PlacementQuery& query, std::span<const RankView> ranks,
                                 const PolicyContext& ctx, const ScoredOptions& options);

} // namespace troupe::sched
