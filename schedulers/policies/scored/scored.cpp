#include "schedulers/policies/scored/scored.hpp"

#include "schedulers/model/integer_math.hpp"
#include "schedulers/model/queue_estimate.hpp"
#include "schedulers/policies/decode_balancer/room.hpp"
#include "schedulers/policies/pick.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

namespace troupe::sched {
namespace {

constexpr std::int64_t kOne = 1'000'000;

/// The keys of a list: "key[0]", "key[1]", ... or of tables "key[0].member".
std::string entry(const char* key, std::size_t index, const char* member = "") {
  return std::string(key) + '[' + std::to_string(index) + ']' + member;
}

bool passes(const PlacementQuery& query, const RankView& rank, const ScoredOptions& options) {
  return options.headroom ? DecodeRoom(query, {})(rank) : has_room(query, rank);
}

/// Adds one term to `totals` [ranks].
void add_term(const PlacementQuery& query, std::span<const RankView> ranks,
              const PolicyContext& ctx, const ScoredOptions& options, const ScoreTerm& term,
              std::vector<std::int64_t>& totals) {
  std::int64_t low = std::numeric_limits<std::int64_t>::max();
  std::int64_t high = std::numeric_limits<std::int64_t>::min();
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    values.push_back(term.measure(query, ranks[i], i, ctx));
    if (!passes(query, ranks[i], options)) continue;
    low = std::min(low, values.back());
    high = std::max(high, values.back());
  }
  if (low >= high) return;
  const Int128 range = static_cast<Int128>(high) - low;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Int128 spread = (static_cast<Int128>(values[i]) - low) * kOne / range;
    const Int128 weighted = static_cast<Int128>(saturate(spread)) * term.weight_permille;
    totals[i] = saturate(static_cast<Int128>(totals[i]) + weighted);
  }
}

} // namespace

ScoredOptions scored_options(OptionTable& table, std::span<const NamedMeasure> measures,
                             bool headroom) {
  constexpr std::array<std::string_view, 3> kFilters = {"alive", "has_room", "headroom"};
  constexpr std::array<std::string_view, 2> kPicks = {"best", "two_choices"};
  ScoredOptions options;
  const std::size_t filters = table.list_size("filters", R"(["alive", "has_room"])");
  options.headroom = headroom && filters == 0;
  for (std::size_t i = 0; i < filters; ++i)
    options.headroom = table.choice(entry("filters", i), 0, kFilters) == 2 || options.headroom;
  options.of_two = table.choice("pick", 0, kPicks) == 1;
  std::vector<std::string_view> names;
  for (const NamedMeasure& measure : measures)
    names.push_back(measure.name);
  const std::string form = "[{ by = \"" + std::string(names.front()) + "\", weight = 1.0 }]";
  const std::size_t scores = table.tables_size("score", form);
  for (std::size_t i = 0; i < scores; ++i) {
    const std::size_t by = table.choice(entry("score", i, ".by"), 0, names);
    const std::int64_t weight = table.thousandths(entry("score", i, ".weight"), 1000, 0, 1'000'000);
    options.terms.push_back({measures[by].measure, weight});
  }
  if (options.terms.empty()) options.terms.push_back({measures[0].measure, 1000});
  return options;
}

Decision<Placement> place_scored(const PlacementQuery& query, std::span<const RankView> ranks,
                                 const PolicyContext& ctx, const ScoredOptions& options) {
  std::vector<std::int64_t> totals(ranks.size(), 0);
  for (const ScoreTerm& term : options.terms)
    add_term(query, ranks, ctx, options, term, totals);
  const auto room = [&](const RankView& rank) { return passes(query, rank, options); };
  const auto score = [&](const RankView& rank) {
    return Score{totals[static_cast<std::size_t>(&rank - ranks.data())], 0};
  };
  return options.of_two ? pick_of_two(ranks, room, score, *ctx.rng)
                        : pick_lowest(ranks, room, score);
}

} // namespace troupe::sched
