#include "schedulers/policies/prefill_chunker/fixed.hpp"

#include <algorithm>

namespace troupe::sched {
namespace {

std::int64_t budget_of(const FixedOptions& options, std::int64_t step_tokens_max) {
  return options.budget_tokens == 0 ? step_tokens_max
                                    : std::min(options.budget_tokens, step_tokens_max);
}

} // namespace

Decision<Slices> FixedChunker::pack(const PackQuery& query, std::span<const RequestView> requests,
                                    const PolicyContext& /*ctx*/) noexcept {
  std::int64_t left = budget_of(options_, query.step_tokens_max);
  Slices slices;
  std::uint32_t taken = 0;
  std::int64_t cut = 0;
  for (const RequestView& request : requests) {
    const std::int64_t tokens = std::min(left, request.remaining());
    if (tokens == 0) break;
    slices.shares.push_back({taken++, tokens});
    cut = request.remaining() - tokens;
    left -= tokens;
  }
  if (slices.shares.empty()) return {std::nullopt, Reason::nothing_to_do};
  const bool all = taken == requests.size() && cut == 0;
  return {std::move(slices), all ? Reason::within_budget : Reason::budget_reached};
}

std::int64_t FixedChunker::step_budget_ps(const CostModel& model,
                                          std::int64_t step_tokens_max) const noexcept {
  return model.chunk_ps(budget_of(options_, step_tokens_max), 0);
}

} // namespace troupe::sched
