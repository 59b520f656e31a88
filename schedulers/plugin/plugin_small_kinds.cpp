// Loaded admission, handoff and overlap policies: a view or two, one word as the answer.

#include "schedulers/plugin/plugin_kinds.hpp"
#include "schedulers/policy/admission_policy.hpp"
#include "schedulers/policy/handoff_policy.hpp"
#include "schedulers/policy/overlap_policy.hpp"

namespace troupe::sched {
namespace {

class AdmissionInstance final : public PluginInstance {
public:
  AdmissionInstance(const troupe_policy& policy, std::shared_ptr<const void> library)
      : PluginInstance(policy, std::move(library)),
        table_(struct_of_library<troupe_admission>(policy.table)) {}

  void hold(const RequestView& request, const LoadView& load) {
    request_ = request;
    load_ = load;
  }

  Decision<Admission> answer(PluginSeat& seat) const noexcept {
    Decision<Admission> decision;
    if (!seat.explain(answer_.reason, decision.reason)) return {};
    if (returned == TROUPE_NONE) return decision;
    if (answer_.admission > TROUPE_REJECT) {
      seat.refuse("the answer has admission " + std::to_string(answer_.admission) +
                  ", expected 0 or 1");
      return {};
    }
    decision.value = static_cast<Admission>(answer_.admission);
    return decision;
  }

private:
  std::int32_t decide(const troupe_call& call) override {
    troupe_admission_question question{};
    question.struct_size = sizeof question;
    question.request = reinterpret_cast<const troupe_request_view*>(&request_);
    question.request_size = sizeof(troupe_request_view);
    question.load = reinterpret_cast<const troupe_load_view*>(&load_);
    question.load_size = sizeof(troupe_load_view);
    begin_answer(answer_, message);
    answer_.admission = UINT32_MAX;
    return table_.decide(self(), &question, &call, &answer_);
  }

  troupe_admission table_;
  RequestView request_;
  LoadView load_;
  troupe_admission_answer answer_{};
};

class LoadedAdmission final : public Loaded<AdmissionPolicy> {
public:
  using Instance = AdmissionInstance;
  using Loaded::Loaded;
  Decision<Admission> admit(const RequestView& request, const LoadView& load,
                            const PolicyContext& ctx) noexcept override {
    return ask<AdmissionInstance>(ctx, request, load);
  }
};

class HandoffInstance final : public PluginInstance {
public:
  HandoffInstance(const troupe_policy& policy, std::shared_ptr<const void> library)
      : PluginInstance(policy, std::move(library)),
        table_(struct_of_library<troupe_handoff>(policy.table)) {}

  void hold(const HandoffQuery& query) { query_ = query; }

  Decision<HandoffPlan> answer(PluginSeat& seat) const noexcept {
    Decision<HandoffPlan> decision;
    if (!seat.explain(answer_.reason, decision.reason)) return {};
    if (returned == TROUPE_NONE) {
      decision.retry_at_us = answer_.retry_at_us;
      return decision;
    }
    if (answer_.mode != TROUPE_HANDOFF_WHOLE) {
      seat.refuse("the answer has mode " + std::to_string(answer_.mode) + ", expected 0");
      return {};
    }
    decision.value = HandoffPlan{HandoffMode::whole};
    return decision;
  }

private:
  std::int32_t decide(const troupe_call& call) override {
    troupe_handoff_question question{};
    question.struct_size = sizeof question;
    question.source_rank = raw(query_.source.rank);
    question.source_incarnation = raw(query_.source.incarnation);
    question.request = reinterpret_cast<const troupe_request_view*>(&query_.request);
    question.request_size = sizeof(troupe_request_view);
    question.tries = query_.tries;
    question.transfers_of_source = query_.transfers_of_source;
    question.transfers = query_.transfers;
    begin_answer(answer_, message);
    answer_.mode = UINT32_MAX;
    return table_.decide(self(), &question, &call, &answer_);
  }

  troupe_handoff table_;
  HandoffQuery query_;
  troupe_handoff_answer answer_{};
};

class LoadedHandoff final : public Loaded<HandoffPolicy> {
public:
  using Instance = HandoffInstance;
  using Loaded::Loaded;
  Decision<HandoffPlan> plan(const HandoffQuery& query,
                             const PolicyContext& ctx) noexcept override {
    return ask<HandoffInstance>(ctx, query);
  }
};

class OverlapInstance final : public PluginInstance {
public:
  OverlapInstance(const troupe_policy& policy, std::shared_ptr<const void> library)
      : PluginInstance(policy, std::move(library)),
        table_(struct_of_library<troupe_overlap>(policy.table)) {}

  void hold(const OverlapView& view) { view_ = view; }

  Decision<OverlapPlan> answer(PluginSeat& seat) const noexcept {
    Decision<OverlapPlan> decision;
    if (!seat.explain(answer_.reason, decision.reason)) return {};
    if (returned == TROUPE_NONE) return decision;
    if (answer_.plan_now > 1 || answer_.masks_under_verify > 1) {
      seat.refuse("the answer has plan_now " + std::to_string(answer_.plan_now) +
                  " and masks_under_verify " + std::to_string(answer_.masks_under_verify) +
                  ", expected 0 or 1");
      return {};
    }
    decision.value =
        OverlapPlan{answer_.plan_now == 1, answer_.arrival_tokens, answer_.masks_under_verify == 1};
    return decision;
  }

private:
  std::int32_t decide(const troupe_call& call) override {
    troupe_overlap_question question{};
    question.struct_size = sizeof question;
    question.view = reinterpret_cast<const troupe_overlap_view*>(&view_);
    question.view_size = sizeof(troupe_overlap_view);
    begin_answer(answer_, message);
    answer_.plan_now = UINT32_MAX;
    answer_.arrival_tokens = 1;
    return table_.decide(self(), &question, &call, &answer_);
  }

  troupe_overlap table_;
  OverlapView view_;
  troupe_overlap_answer answer_{};
};

class LoadedOverlap final : public Loaded<OverlapPolicy> {
public:
  using Instance = OverlapInstance;
  using Loaded::Loaded;
  Decision<OverlapPlan> plan(const OverlapView& view, const PolicyContext& ctx) noexcept override {
    return ask<OverlapInstance>(ctx, view);
  }
};

} // namespace

PluginKind plugin_admission_kind() { return plugin_kind<LoadedAdmission>(); }
PluginKind plugin_handoff_kind() { return plugin_kind<LoadedHandoff>(); }
PluginKind plugin_overlap_kind() { return plugin_kind<LoadedOverlap>(); }

} // namespace troupe::sched
