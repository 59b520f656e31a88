#include "schedulers/policy/questions.hpp"

#include "schedulers/policy/validate.hpp"
#include "schedulers/policy/validate_experts.hpp"

namespace troupe::sched {
namespace {

std::vector<ExpertLayerView> views_of(const std::vector<ExpertLayer>& layers) {
  std::vector<ExpertLayerView> views;
  for (const ExpertLayer& layer : layers)
    views.push_back({layer.loads, layer.steps, layer.current});
  return views;
}

} // namespace

PolicyContext policy_context(const QuestionContext& context, Rng& rng) noexcept {
  PolicyContext ctx;
  ctx.now_us = context.now_us;
  ctx.rng = &rng;
  ctx.epoch = context.epoch;
  ctx.cost_model = &context.cost_model;
  ctx.step_budget_ps = context.step_budget_ps;
  ctx.block_tokens = context.block_tokens;
  return ctx;
}

void observe(QueuePolicy& policy, const QueueObservation& seen) noexcept {
  Rng rng(seen.context.seed);
  policy.observe(seen.request, seen.event, policy_context(seen.context, rng));
}

Decision<Admission> AdmissionQuestion::ask(Kind& policy, const PolicyContext& ctx) const noexcept {
  return policy.admit(request, load, ctx);
}

Status AdmissionQuestion::check(const Decision<Answer>& answer) const { return validate(answer); }

Decision<Order> QueueQuestion::ask(Kind& policy, const PolicyContext& ctx) const noexcept {
  return policy.order(waiting, ctx);
}

Status QueueQuestion::check(const Decision<Answer>& answer) const {
  return validate(answer, waiting);
}

Decision<Placement> RouterQuestion::ask(Kind& policy, const PolicyContext& ctx) const noexcept {
  return policy.route(query(), ranks, ctx);
}

Status RouterQuestion::check(const Decision<Answer>& answer) const {
  return validate(answer, query(), ranks);
}

Decision<Slices> ChunkerQuestion::ask(Kind& policy, const PolicyContext& ctx) const noexcept {
  return policy.pack(query, requests, ctx);
}

Status ChunkerQuestion::check(const Decision<Answer>& answer) const {
  return validate(answer, query, requests);
}

Decision<HandoffPlan> HandoffQuestion::ask(Kind& policy, const PolicyContext& ctx) const noexcept {
  return policy.plan(query, ctx);
}

Status HandoffQuestion::check(const Decision<Answer>& answer) const {
  return validate(answer, query);
}

Decision<Placement> BalancerQuestion::ask(Kind& policy, const PolicyContext& ctx) const noexcept {
  return policy.place(query(), ranks, ctx);
}

Status BalancerQuestion::check(const Decision<Answer>& answer) const {
  return validate(answer, query(), ranks);
}

Decision<StepDecision> StepQuestion::ask(Kind& policy, const PolicyContext& ctx) const noexcept {
  return policy.compose(query(), ctx);
}

Status StepQuestion::check(const Decision<Answer>& answer) const {
  return validate(answer, query());
}

Decision<OverlapPlan> OverlapQuestion::ask(Kind& policy, const PolicyContext& ctx) const noexcept {
  return policy.plan(view, ctx);
}

Status OverlapQuestion::check(const Decision<Answer>& answer) const {
  return validate(answer, view);
}

std::size_t ExpertQuestion::bytes() const noexcept {
  std::size_t bytes = 0;
  for (const ExpertLayer& layer : layers) {
    bytes += (layer.loads.size() + layer.steps.size()) * sizeof(std::int64_t) +
             layer.current.size() * sizeof(std::int32_t);
  }
  return bytes;
}

Decision<ExpertLayout> ExpertQuestion::ask(Kind& policy, const PolicyContext& ctx) const noexcept {
  const auto views = views_of(layers);
  return policy.plan({topology, views, moves_max, costs}, ctx);
}

Status ExpertQuestion::check(const Decision<Answer>& answer) const {
  const auto views = views_of(layers);
  return validate(answer, {topology, views, moves_max, costs});
}

} // namespace troupe::sched
