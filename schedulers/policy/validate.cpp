#include "schedulers/policy/validate.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace troupe::sched {
namespace {

Status broken(std::string what) { return Status(ErrorCode::bad_argument, std::move(what)); }

const Status kNoReason(ErrorCode::bad_argument, "a decision carries no reason");

/// Shares name distinct candidates and take 1 .. limit(candidate) tokens; adds them to `tokens`.
template <class Limit>
Status check_shares(const std::vector<Share>& shares, std::size_t candidates, const Limit& limit,
                    std::int64_t tokens_max, std::int64_t& tokens) {
  std::vector<bool> seen(candidates, false);
  for (const Share& share : shares) {
    if (share.candidate >= candidates) return broken("a share names no candidate");
    if (seen[share.candidate]) return broken("a candidate got two shares");
    seen[share.candidate] = true;
    if (share.tokens < 1) return broken("a share of no tokens");
    if (share.tokens > limit(share.candidate)) return broken("a share beyond what is left");
    if (share.tokens > tokens_max - tokens) return broken("more tokens than one step takes");
    tokens += share.tokens;
  }
  return {};
}

} // namespace

Status validate(const Decision<Admission>& decision) {
  if (decision.reason == Reason::unset) return kNoReason;
  if (!decision.value) return broken("admission without an answer");
  if (*decision.value != Admission::admit && *decision.value != Admission::reject) {
    return broken("admission with an unknown answer");
  }
  return {};
}

Status validate(const Decision<Order>& decision, std::span<const RequestView> waiting) {
  if (decision.reason == Reason::unset) return kNoReason;
  if (!decision.value || decision.value->positions.size() != waiting.size()) {
    return broken("an order of another length than the queue");
  }
  std::vector<bool> seen(waiting.size(), false);
  for (const std::uint32_t position : decision.value->positions) {
    if (position >= seen.size() || seen[position]) return broken("an order is no permutation");
    seen[position] = true;
  }
  return {};
}

Status validate(const Decision<Placement>& decision, const PlacementQuery& query,
                std::span<const RankView> ranks) {
  if (decision.reason == Reason::unset) return kNoReason;
  if (!decision.value) return {};
  if (!decision.value->scores.empty() && decision.value->scores.size() != ranks.size()) {
    return broken("another number of scores than ranks");
  }
  for (const RankView& rank : ranks) {
    if (rank.rank.rank != decision.value->rank) continue;
    return has_room(query, rank) ? Status{} : broken("the chosen rank has no room");
  }
  return broken("the chosen rank is not in the view");
}

Status validate(const Decision<Slices>& decision, const PackQuery& query,
                std::span<const RequestView> requests) {
  if (decision.reason == Reason::unset) return kNoReason;
  if (!decision.value) return {};
  if (decision.value->shares.empty()) return broken("a pack of nothing");
  std::int64_t tokens = 0;
  return check_shares(
      decision.value->shares, requests.size(),
      [&](std::uint32_t i) { return requests[i].remaining(); }, query.step_tokens_max, tokens);
}

Status validate(const Decision<HandoffPlan>& decision, const HandoffQuery& query) {
  if (decision.reason == Reason::unset) return kNoReason;
  if (!decision.value) {
    return query.transfers > 0 ? Status{} : broken("a handoff waits though nothing is under way");
  }
  return decision.value->mode == HandoffMode::whole ? Status{} : broken("an unknown handoff mode");
}

Status validate(const Decision<StepDecision>& decision, const StepQuery& query) {
  if (decision.reason == Reason::unset) return kNoReason;
  if (!decision.value) return broken("a step without an answer");
  std::vector<bool> seen(query.decodes.size(), false);
  for (const std::uint32_t i : decision.value->decodes) {
    if (i >= seen.size() || seen[i]) return broken("a sequence decodes twice or is unknown");
    seen[i] = true;
  }
  std::int64_t tokens = static_cast<std::int64_t>(decision.value->decodes.size());
  if (tokens > query.step_tokens_max) return broken("more tokens than one step takes");
  Status shares = check_shares(
      decision.value->slices, query.slices.size(),
      [&](std::uint32_t i) { return query.slices[i].count; }, query.step_tokens_max, tokens);
  if (!shares.ok()) return shares;
  return tokens >= 1 ? Status{} : broken("an empty step though there is work");
}

} // namespace troupe::sched
