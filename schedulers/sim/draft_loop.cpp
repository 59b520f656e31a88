#include "schedulers/sim/draft_loop.hpp"

#include "schedulers/model/integer_math.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace troupe::sim {

using sched::DraftRow;

void DraftLoop::step(std::span<const DraftRow> rows, std::span<const std::int64_t> rank_tokens) {
  const sched::DraftQuery query{rows, rank_tokens, costs_};
  sched::PolicyContext ctx;
  ctx.now_us = totals_.time_ps / 1'000'000;
  ctx.rng = &rng_;
  ctx.cost_model = &model_;
  const auto decision = policy_.choose(query, ctx);
  const bool valid = sched::validate(decision, query).ok();
  std::vector<std::int64_t> tokens(rank_tokens.begin(), rank_tokens.end());
  totals_.invalid += valid ? 0 : 1;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    totals_.out += sched::kCertain;
    const std::int64_t length = valid ? decision.value->lengths[row] : 0;
    for (std::int64_t draft = 0; draft < length; ++draft)
      totals_.out += rows[row].survivals[static_cast<std::size_t>(draft)];
    totals_.verified += length;
    tokens[rows[row].rank] += length;
  }
  const std::int64_t fullest = tokens.empty() ? 0 : *std::max_element(tokens.begin(), tokens.end());
  const std::int64_t took_ps = costs_.at(fullest) + overhead_ps_;
  totals_.time_ps += took_ps;
  totals_.rows += static_cast<std::int64_t>(rows.size());
  ++totals_.steps;
  if (!valid) return;
  sched::DraftOutcome outcome{fullest, decision.value->step_ps, took_ps};
  outcome.rows = static_cast<std::int64_t>(rows.size());
  outcome.extra_ps = costs_.extra_ps + overhead_ps_;
  const auto graph = std::find_if(costs_.points.begin(), costs_.points.end(),
                                  [&](const auto& point) { return point.tokens >= fullest; });
  if (graph != costs_.points.end()) {
    outcome.size = graph->tokens;
    outcome.curve_ps = graph->ps;
  }
  policy_.observe(outcome);
}

std::int64_t DraftLoop::millitokens_per_s() const noexcept {
  constexpr std::int64_t kMillisInSecond = 1'000'000'000'000'000; // Thousandths, ps in a second.
  return sched::saturate(static_cast<sched::Int128>(totals_.out) * kMillisInSecond /
                         sched::kCertain / totals_.time_ps);
}

} // namespace troupe::sim
