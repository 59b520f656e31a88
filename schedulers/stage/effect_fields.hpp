// The fields of what stages say and ask for, as fields.hpp names those of events.

#pragma once

#include "schedulers/stage/fields.hpp"

namespace troupe {

template <Is<OptionValue> T, class V>
void each_field(T& x, V& v) {
  v("value", x.value)("where", x.where);
}
template <class V>
void each_field(const OptionTable& x, V& v) {
  v("name", x.name())("values", x.values());
}

} // namespace troupe

namespace troupe::sched {

// -- policy sets ---------------------------------------------------------------------------------

template <Is<PolicySpec> T, class V>
void each_field(T& x, V& v) {
  v("policy", x.policy)("options", x.options);
}
template <Is<LibrarySpec> T, class V>
void each_field(T& x, V& v) {
  v("path", x.path)("digest", x.digest)("lane", x.lane)("decide_us", x.decide_us);
  v("create_ms", x.create_ms);
}
template <Is<ProbationSpec> T, class V>
void each_field(T& x, V& v) {
  v("window_us", x.window_us)("requests_min", x.requests_min);
  v("ttft_p95_permille", x.ttft_p95_permille)("tpot_p95_permille", x.tpot_p95_permille);
  v("goodput_permille", x.goodput_permille)("preemptions_permille", x.preemptions_permille);
}
template <Is<PolicySet> T, class V>
void each_field(T& x, V& v) {
  v("epoch", x.epoch)("name", x.name)("text", x.text)("file", x.file)("kinds", x.kinds);
  v("libraries", x.libraries)("probation", x.probation)("shadow", x.shadow);
  v("canary", x.canary)("canary_permille", x.canary_permille);
}

// -- effects -------------------------------------------------------------------------------------

template <Is<Send> T, class V>
void each_field(T& x, V& v) {
  v("to", x.to)("rank", x.rank)("message", x.message);
}
template <Is<SetTimer> T, class V>
void each_field(T& x, V& v) {
  v("kind", x.kind)("key", x.key)("due_us", x.due_us);
}
template <Is<StepEntry> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("slot", x.slot)("first_position", x.first_position)("count", x.count);
  v("draw", x.draw)("blocks_first", x.blocks_first)("blocks", x.blocks)("follows", x.follows);
}
template <Is<RunStep> T, class V>
void each_field(T& x, V& v) {
  v("step", x.step)("entries", x.entries)("expert_epoch", x.expert_epoch);
  v("count_experts", x.count_experts)("blocks", x.blocks);
}
template <Is<ExportSequence> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("slot", x.slot)("blocks", x.blocks);
}
template <Is<ImportSequence> T, class V>
void each_field(T& x, V& v) {
  v("pull", x.pull)("slot", x.slot)("blocks", x.blocks);
}
template <Is<Forget> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref);
}
template <Is<Emit> T, class V>
void each_field(T& x, V& v) {
  v("request", x.request)("rows", x.rows);
}
template <Is<Finish> T, class V>
void each_field(T& x, V& v) {
  v("request", x.request)("code", x.code)("end", x.end)("detail", x.detail);
  v("attempts", x.attempts)("arrival_us", x.arrival_us)("first_token_us", x.first_token_us);
  v("end_us", x.end_us)("output_tokens", x.output_tokens)("preemptions", x.preemptions);
}
template <Is<Stuck> T, class V>
void each_field(T& x, V& v) {
  v("request", x.request)("waits_for", x.waits_for)("silent_us", x.silent_us);
}
template <Is<StartRank> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank);
}
template <Is<AbandonRank> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank)("detail", x.detail);
}
template <Is<Milestone> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("phase", x.phase)("rank", x.rank)("value", x.value)("detail", x.detail);
}
template <Is<RankChange> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank)("role", x.role)("name", x.name)("up", x.up);
}

// -- decisions -----------------------------------------------------------------------------------

template <Is<Candidate> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank)("score", x.score)("feasible", x.feasible);
}
/// The answer before the question: what is named first when two records differ.
template <Is<Record> T, class V>
void each_field(T& x, V& v) {
  v("kind", x.kind)("policy", x.policy)("epoch", x.epoch)("ref", x.ref)("rank", x.rank);
  v("reason", x.reason)("value", x.value)("asked", x.asked)("view_age_us", x.view_age_us);
  v("candidates", x.candidates)("too_large", x.too_large);
}
template <class Question, class V>
void each_field(const AskedOf<Question>& x, V& v) {
  v("question", x.question)("answer", x.answer)("policy", x.policy)("canary", x.canary);
  v("has_state", x.has_state)("gap", x.gap)("state", x.state);
}
template <class Answer, class V>
void each_field(const Decision<Answer>& x, V& v) {
  v("value", x.value)("reason", x.reason)("retry_at_us", x.retry_at_us);
}
template <Is<Observed> T, class V>
void each_field(T& x, V& v) {
  v("observation", x.observation)("epoch", x.epoch);
}
template <Is<QueueObservation> T, class V>
void each_field(T& x, V& v) {
  v("context", x.context)("request", x.request)("event", x.event);
}

// -- what is asked -------------------------------------------------------------------------------

template <Is<QuestionContext> T, class V>
void each_field(T& x, V& v) {
  v("now_us", x.now_us)("seed", x.seed)("epoch", x.epoch)("cost_model", x.cost_model);
  v("step_budget_ps", x.step_budget_ps)("block_tokens", x.block_tokens);
}
template <Is<RequestView> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("session_hash", x.session_hash)("tenant_hash", x.tenant_hash);
  v("priority", x.priority)("arrival_us", x.arrival_us)("deadline_us", x.deadline_us);
  v("prompt", x.prompt)("answered", x.answered)("done", x.done);
  v("new_tokens_max", x.new_tokens_max)("work_ps", x.work_ps)("claim", x.claim);
}
template <Is<RankView> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank)("role", x.role)("draining", x.draining)("held", x.held);
  v("block_tokens", x.block_tokens)("context_max", x.context_max);
  v("kv_blocks_free", x.kv_blocks_free)("kv_blocks_total", x.kv_blocks_total);
  v("slots_free", x.slots_free)("slots_total", x.slots_total)("running", x.running);
  v("context_tokens", x.context_tokens)("queued", x.queued)("queued_tokens", x.queued_tokens);
  v("uncached_tokens", x.uncached_tokens)("work_ps", x.work_ps)("as_of_us", x.as_of_us);
}
template <Is<LoadView> T, class V>
void each_field(T& x, V& v) {
  v("waiting", x.waiting)("waiting_tokens", x.waiting_tokens)("least_work_ps", x.least_work_ps);
  v("ranks", x.ranks)("as_of_us", x.as_of_us);
}
template <Is<AdmissionQuestion> T, class V>
void each_field(T& x, V& v) {
  v("context", x.context)("request", x.request)("load", x.load);
}
template <Is<QueueQuestion> T, class V>
void each_field(T& x, V& v) {
  v("context", x.context)("waiting", x.waiting);
}
template <Is<RouterQuestion> T, class V>
void each_field(T& x, V& v) {
  v("context", x.context)("request", x.request)("ranks", x.ranks);
  v("local_hit_tokens", x.local_hit_tokens);
}
template <Is<PackQuery> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank)("step_tokens_max", x.step_tokens_max);
}
template <Is<ChunkerQuestion> T, class V>
void each_field(T& x, V& v) {
  v("context", x.context)("query", x.query)("requests", x.requests);
}
template <Is<HandoffQuery> T, class V>
void each_field(T& x, V& v) {
  v("request", x.request)("source", x.source)("tries", x.tries);
  v("transfers_of_source", x.transfers_of_source)("transfers", x.transfers);
}
template <Is<HandoffQuestion> T, class V>
void each_field(T& x, V& v) {
  v("context", x.context)("query", x.query);
}
template <Is<BalancerQuestion> T, class V>
void each_field(T& x, V& v) {
  v("context", x.context)("request", x.request)("source", x.source)("ranks", x.ranks);
}
template <Is<OfferedSlice> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("first", x.first)("count", x.count);
}
template <Is<DecodeView> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("positions", x.positions);
}
template <Is<StepQuestion> T, class V>
void each_field(T& x, V& v) {
  v("context", x.context)("slices", x.slices)("decodes", x.decodes);
  v("step_tokens_max", x.step_tokens_max);
}
template <Is<OverlapView> T, class V>
void each_field(T& x, V& v) {
  v("device_ps", x.device_ps)("host_ps", x.host_ps)("plans_held", x.plans_held);
  v("sequences", x.sequences)("constrained", x.constrained)("arrivals", x.arrivals);
  v("drafts", x.drafts)("blocks_most", x.blocks_most)("blocks_free", x.blocks_free);
  v("blocks_retiring", x.blocks_retiring);
}
template <Is<OverlapQuestion> T, class V>
void each_field(T& x, V& v) {
  v("context", x.context)("view", x.view);
}
template <Is<ExpertLayer> T, class V>
void each_field(T& x, V& v) {
  v("loads", x.loads)("steps", x.steps)("current", x.current);
}
template <Is<ExpertQuestion> T, class V>
void each_field(T& x, V& v) {
  v("context", x.context)("topology", x.topology)("moves_max", x.moves_max)("costs", x.costs);
  v("layers", x.layers);
}

// -- what is answered ----------------------------------------------------------------------------

template <Is<Order> T, class V>
void each_field(T& x, V& v) {
  v("positions", x.positions);
}
template <Is<Placement> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank)("scores", x.scores);
}
template <Is<Share> T, class V>
void each_field(T& x, V& v) {
  v("candidate", x.candidate)("tokens", x.tokens);
}
template <Is<Slices> T, class V>
void each_field(T& x, V& v) {
  v("shares", x.shares);
}
template <Is<HandoffPlan> T, class V>
void each_field(T& x, V& v) {
  v("mode", x.mode);
}
template <Is<StepDecision> T, class V>
void each_field(T& x, V& v) {
  v("decodes", x.decodes)("slices", x.slices);
}
template <Is<OverlapPlan> T, class V>
void each_field(T& x, V& v) {
  v("plan_now", x.plan_now)("arrival_tokens", x.arrival_tokens);
  v("masks_under_verify", x.masks_under_verify);
}
template <Is<ExpertLayerPlan> T, class V>
void each_field(T& x, V& v) {
  v("slots", x.slots)("change", x.change)("moves", x.moves);
  v("imbalance_millionths", x.imbalance_millionths);
}
template <Is<ExpertLayout> T, class V>
void each_field(T& x, V& v) {
  v("layers", x.layers)("moves", x.moves);
}

} // namespace troupe::sched
