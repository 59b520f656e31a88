#include "schedulers/policies/prefill_chunker/time_budget.hpp"

#include <algorithm>

namespace troupe::sched {

Decision<Slices> TimeBudgetChunker::pack(const PackQuery& query,
                                         std::span<const RequestView> requests,
                                         const PolicyContext& ctx) noexcept {
  const CostModel& model = *ctx.cost_model;
  std::int64_t left_ps = step_budget_ps(model, query.step_tokens_max) - model.step_ps;
  std::int64_t left_tokens = query.step_tokens_max;
  Slices slices;
  Reason reason = Reason::within_budget;
  for (std::uint32_t i = 0; i < requests.size(); ++i) {
    const RequestView& request = requests[i];
    const std::int64_t room =
        std::min({request.remaining(), left_tokens, model.largest_chunk(left_ps, request.done)});
    std::int64_t tokens = room;
    if (tokens < request.remaining()) {
      tokens -= tokens % options_.align_tokens;
      reason = Reason::budget_reached;
    }
    if (tokens == 0 && i == 0) {
      tokens = std::min({request.remaining(), left_tokens, options_.align_tokens});
      reason = Reason::budget_too_small;
    }
    if (tokens == 0) break;
    slices.shares.push_back({i, tokens});
    left_ps -= model.marginal_ps(tokens, request.done);
    left_tokens -= tokens;
    if (tokens < request.remaining()) break;
  }
  if (slices.shares.empty()) return {std::nullopt, Reason::nothing_to_do};
  return {std::move(slices), reason};
}

std::int64_t TimeBudgetChunker::step_budget_ps(const CostModel& /*model*/,
                                               std::int64_t /*step_tokens_max*/) const noexcept {
  constexpr std::int64_t kPicosPerMicro = 1'000'000;
  return options_.budget_us * kPicosPerMicro;
}

} // namespace troupe::sched
