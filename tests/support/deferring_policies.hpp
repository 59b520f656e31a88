// Policies that say "not now" until a time, and name another one or none.

#pragma once

#include "schedulers/policy/decode_balancer.hpp"
#include "schedulers/policy/handoff_policy.hpp"
#include "schedulers/policy/prefill_chunker.hpp"
#include "schedulers/policy/prefill_router.hpp"
#include "schedulers/registry/policy_registry.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

namespace troupe::sched::testing {

/// What a test lets the policies of `register_deferring` do.
struct Deferral {
  /// Of (now, arrival): when the policy says yes. Endless by default.
  std::function<std::int64_t(std::int64_t, std::int64_t)> yes_from_us =
      [](std::int64_t, std::int64_t) { return std::numeric_limits<std::int64_t>::max(); };
  /// Of (now, when it says yes): what it names as the time to ask again.
  std::function<std::int64_t(std::int64_t, std::int64_t)> named_us =
      [](std::int64_t, std::int64_t yes_us) { return yes_us; };
  std::int64_t asked = 0; ///< Questions it got.

  template <class Answer>
  bool defers(Decision<Answer>& answer, std::int64_t now_us, std::int64_t arrival_us) {
    ++asked;
    const std::int64_t yes_us = yes_from_us(now_us, arrival_us);
    if (now_us >= yes_us) return false;
    answer = {std::nullopt, Reason::held_back, named_us(now_us, yes_us)};
    return true;
  }
};

inline Decision<Placement> deferred_or_first(Deferral& deferral, const PlacementQuery& query,
                                             std::span<const RankView> ranks,
                                             const PolicyContext& ctx) {
  Decision<Placement> answer;
  if (deferral.defers(answer, ctx.now_us, query.request.arrival_us)) return answer;
  for (const RankView& rank : ranks) {
    if (has_room(query, rank)) return {Placement{rank.rank.rank, {}}, Reason::tie_lowest_id, 0};
  }
  return {std::nullopt, Reason::no_room, 0};
}

struct DeferringRouter final : PrefillRouter {
  explicit DeferringRouter(std::shared_ptr<Deferral> given) : deferral(std::move(given)) {}
  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override {
    return deferred_or_first(*deferral, query, ranks, ctx);
  }
  std::shared_ptr<Deferral> deferral;
};

struct DeferringBalancer final : DecodeBalancer {
  explicit DeferringBalancer(std::shared_ptr<Deferral> given) : deferral(std::move(given)) {}
  Decision<Placement> place(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override {
    return deferred_or_first(*deferral, query, ranks, ctx);
  }
  std::shared_ptr<Deferral> deferral;
};

struct DeferringHandoff final : HandoffPolicy {
  explicit DeferringHandoff(std::shared_ptr<Deferral> given) : deferral(std::move(given)) {}
  Decision<HandoffPlan> plan(const HandoffQuery& query,
                             const PolicyContext& ctx) noexcept override {
    Decision<HandoffPlan> answer;
    if (query.transfers > 0 && deferral->defers(answer, ctx.now_us, query.request.arrival_us)) {
      return answer;
    }
    return {HandoffPlan{HandoffMode::whole}, Reason::only_choice, 0};
  }
  std::shared_ptr<Deferral> deferral;
};

/// Gives the first request one token a step.
struct DeferringChunker final : PrefillChunker {
  explicit DeferringChunker(std::shared_ptr<Deferral> given) : deferral(std::move(given)) {}
  Decision<Slices> pack(const PackQuery&, std::span<const RequestView> requests,
                        const PolicyContext& ctx) noexcept override {
    Decision<Slices> answer;
    if (deferral->defers(answer, ctx.now_us, requests[0].arrival_us)) return answer;
    return {Slices{{{0, 1}}}, Reason::budget_reached, 0};
  }
  std::int64_t step_budget_ps(const CostModel&, std::int64_t tokens) const noexcept override {
    return tokens;
  }
  std::shared_ptr<Deferral> deferral;
};

/// Policy "defers" of the four kinds that may say "not now"; all share `deferral`.
inline void register_deferring(PolicyRegistry& registry, std::shared_ptr<Deferral> deferral) {
  const auto add = [&]<class Made>(const char* kind) {
    registry.add(kind, "defers", [deferral](OptionTable) -> Result<std::unique_ptr<Policy>> {
      return std::unique_ptr<Policy>(std::make_unique<Made>(deferral));
    });
  };
  add.operator()<DeferringRouter>("prefill_router");
  add.operator()<DeferringBalancer>("decode_balancer");
  add.operator()<DeferringHandoff>("handoff");
  add.operator()<DeferringChunker>("prefill_chunker");
}

} // namespace troupe::sched::testing
