// Loaded prefill routers and decode balancers.

#include "schedulers/plugin/plugin_kinds.hpp"
#include "schedulers/policy/decode_balancer.hpp"
#include "schedulers/policy/prefill_router.hpp"

namespace troupe::sched {
namespace {

/// Question and answer of both kinds.
class PlacementInstance : public PluginInstance {
public:
  using PluginInstance::PluginInstance;

  void hold(const PlacementQuery& query, std::span<const RankView> ranks, bool copy) {
    request_ = query.request;
    source_ = query.source;
    ranks_.hold(ranks, copy);
    hits_.assign(query.local_hit_tokens.begin(), query.local_hit_tokens.end());
    if (!hits_.empty()) hits_.resize(ranks.size(), 0);
    scores_.assign(ranks.size(), 0);
  }

  Decision<Placement> answer(PluginSeat& seat) const noexcept {
    Decision<Placement> decision;
    if (!seat.explain(answer_.reason, decision.reason)) return {};
    if (returned == TROUPE_NONE) {
      decision.retry_at_us = answer_.retry_at_us;
      return decision;
    }
    decision.value = Placement{RankId{answer_.rank}, {}};
    if (answer_.scored != 0) decision.value->scores = scores_;
    return decision;
  }

protected:
  const troupe_request_view* request() const noexcept {
    return reinterpret_cast<const troupe_request_view*>(&request_);
  }
  troupe_placement_answer* begin_placement() noexcept {
    begin_answer(answer_, message);
    answer_.rank = UINT32_MAX;
    answer_.scores = scores_.data();
    return &answer_;
  }

  RequestView request_;
  RankRef source_;
  HeldViews<RankView> ranks_;
  std::vector<std::int64_t> hits_;

private:
  std::vector<std::int64_t> scores_;
  troupe_placement_answer answer_{};
};

class RouterInstance final : public PlacementInstance {
public:
  RouterInstance(const troupe_policy& policy, std::shared_ptr<const void> library)
      : PlacementInstance(policy, std::move(library)),
        table_(struct_of_library<troupe_prefill_router>(policy.table)) {}

private:
  std::int32_t decide(const troupe_call& call) override {
    troupe_router_question question{};
    question.struct_size = sizeof question;
    question.request = request();
    question.request_size = sizeof(troupe_request_view);
    question.ranks = ranks_.array();
    question.local_hit_tokens = hits_.empty() ? nullptr : hits_.data();
    return table_.decide(self(), &question, &call, begin_placement());
  }

  troupe_prefill_router table_;
};

class BalancerInstance final : public PlacementInstance {
public:
  BalancerInstance(const troupe_policy& policy, std::shared_ptr<const void> library)
      : PlacementInstance(policy, std::move(library)),
        table_(struct_of_library<troupe_decode_balancer>(policy.table)) {}

private:
  std::int32_t decide(const troupe_call& call) override {
    troupe_balancer_question question{};
    question.struct_size = sizeof question;
    question.source_rank = raw(source_.rank);
    question.source_incarnation = raw(source_.incarnation);
    question.request = request();
    question.request_size = sizeof(troupe_request_view);
    question.ranks = ranks_.array();
    return table_.decide(self(), &question, &call, begin_placement());
  }

  troupe_decode_balancer table_;
};

class LoadedRouter final : public Loaded<PrefillRouter> {
public:
  using Instance = RouterInstance;
  using Loaded::Loaded;
  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override {
    return ask<PlacementInstance>(ctx, query, ranks, seat_.copies());
  }
};

class LoadedBalancer final : public Loaded<DecodeBalancer> {
public:
  using Instance = BalancerInstance;
  using Loaded::Loaded;
  Decision<Placement> place(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override {
    return ask<PlacementInstance>(ctx, query, ranks, seat_.copies());
  }
};

} // namespace

PluginKind plugin_router_kind() { return plugin_kind<LoadedRouter>(); }
PluginKind plugin_balancer_kind() { return plugin_kind<LoadedBalancer>(); }

} // namespace troupe::sched
