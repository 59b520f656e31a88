#include "schedulers/policies/prefill_chunker/time_budget.hpp"

#include "schedulers/model/integer_math.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace troupe::sched {
namespace {

/// Place of the request that came first; of those that came together, of the one with the lowest
/// id.
std::uint32_t oldest_of(std::span<const RequestView> requests) {
  std::uint32_t oldest = 0;
  for (std::uint32_t i = 1; i < requests.size(); ++i) {
    if (std::tie(requests[i].arrival_us, requests[i].ref) <
        std::tie(requests[oldest].arrival_us, requests[oldest].ref)) {
      oldest = i;
    }
  }
  return oldest;
}

/// Time and tokens of a step, and what went into it.
struct Filling {
  const CostModel& model;
  std::int64_t align_tokens;
  std::int64_t left_ps;
  std::int64_t left_tokens;
  Slices slices = {};
  bool cut = false;

  /// Adds what fits beside what is kept back; false when the request was cut or left out.
  bool take(std::span<const RequestView> requests, std::uint32_t i, std::int64_t kept_ps,
            std::int64_t kept_tokens) {
    const RequestView& request = requests[i];
    std::int64_t tokens = std::min({request.remaining(), left_tokens - kept_tokens,
                                    model.largest_chunk(left_ps - kept_ps, request.done)});
    if (tokens < request.remaining()) tokens -= tokens % align_tokens;
    cut = cut || tokens < request.remaining();
    if (tokens <= 0) return false;
    put(request, i, tokens);
    return tokens == request.remaining();
  }

  void put(const RequestView& request, std::uint32_t i, std::int64_t tokens) {
    slices.shares.push_back({i, tokens});
    left_ps -= model.marginal_ps(tokens, request.done);
    left_tokens -= tokens;
  }
};

} // namespace

Decision<Slices> TimeBudgetChunker::pack(const PackQuery& query,
                                         std::span<const RequestView> requests,
                                         const PolicyContext& ctx) noexcept {
  if (requests.empty()) return {std::nullopt, Reason::nothing_to_do};
  const CostModel& model = *ctx.cost_model;
  const std::int64_t time_ps = step_budget_ps(model, query.step_tokens_max) - model.step_ps;
  Filling filling{model, options_.align_tokens, time_ps, query.step_tokens_max};
  const std::uint32_t oldest = options_.oldest_permille > 0 ? oldest_of(requests) : 0;
  const std::int64_t share = oldest > 0 ? options_.oldest_permille : 0;
  const std::int64_t kept_ps = time_ps > 0 ? scale(time_ps, share, 1000) : 0;
  const std::int64_t kept_tokens = scale(query.step_tokens_max, share, 1000);
  for (std::uint32_t i = 0; i < requests.size(); ++i) {
    if (share > 0 && i == oldest) continue;
    if (!filling.take(requests, i, kept_ps, kept_tokens)) break;
  }
  if (share > 0) filling.take(requests, oldest, 0, 0);
  if (filling.slices.shares.empty()) {
    const std::int64_t least =
        std::min({requests[0].remaining(), query.step_tokens_max, options_.align_tokens});
    filling.put(requests[0], 0, least);
    return {std::move(filling.slices), Reason::budget_too_small};
  }
  return {std::move(filling.slices), filling.cut ? Reason::budget_reached : Reason::within_budget};
}

std::int64_t TimeBudgetChunker::step_budget_ps(const CostModel& /*model*/,
                                               std::int64_t /*step_tokens_max*/) const noexcept {
  constexpr std::int64_t kPicosPerMicro = 1'000'000;
  return options_.budget_us * kPicosPerMicro;
}

} // namespace troupe::sched
