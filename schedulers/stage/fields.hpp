// The fields of every event and every option of a stage, each named once: what keeps, compares and
// shows them walks these lists.
//
// each_field(x, visit) calls visit("name", x.name) in the order of the struct and returns what that
// returned. A field's place in its list is its number on disk: new ones go to the end.

#pragma once

#include "schedulers/stage/event.hpp"

#include <concepts>
#include <type_traits>

namespace troupe {

/// T is Struct, const or not.
template <class T, class Struct>
concept Is = std::same_as<std::remove_const_t<T>, Struct>;

template <Is<RequestRef> T, class V>
void each_field(T& x, V& v) {
  v("request", x.request)("attempt", x.attempt);
}
template <Is<RankRef> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank)("incarnation", x.incarnation);
}
template <Is<Digest> T, class V>
void each_field(T& x, V& v) {
  v("high", x.high)("low", x.low);
}

} // namespace troupe

namespace troupe::sched {

// -- requests ------------------------------------------------------------------------------------

template <Is<Claim> T, class V>
void each_field(T& x, V& v) {
  v("reservation", x.reservation)("expected_p50", x.expected_p50);
  v("expected_p90", x.expected_p90)("preemptions", x.preemptions);
}
template <Is<Sampling> T, class V>
void each_field(T& x, V& v) {
  v("temperature_bits", x.temperature_bits)("top_p_bits", x.top_p_bits)("top_k", x.top_k);
  v("seed", x.seed)("top_logprobs", x.top_logprobs)("new_tokens_min", x.new_tokens_min);
  v("ignore_eos", x.ignore_eos);
}
template <Is<Work> T, class V>
void each_field(T& x, V& v) {
  v("prompt", x.prompt)("answered", x.answered)("stop_ids", x.stop_ids);
  v("new_tokens_max", x.new_tokens_max)("sampling", x.sampling);
}
template <Is<TokenRow> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("index", x.index)("token", x.token)("logprob_bits", x.logprob_bits);
  v("top_tokens", x.top_tokens)("top_logprob_bits", x.top_logprob_bits)("end", x.end);
}
template <Is<Arrive> T, class V>
void each_field(T& x, V& v) {
  v("request", x.request)("tenant", x.tenant)("priority", x.priority)("work", x.work);
  v("session_hash", x.session_hash);
}
template <Is<StopSeen> T, class V>
void each_field(T& x, V& v) {
  v("request", x.request);
}
template <Is<Abandon> T, class V>
void each_field(T& x, V& v) {
  v("request", x.request)("reason", x.reason);
}

// -- driver and chunker --------------------------------------------------------------------------

template <Is<Submit> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("tenant", x.tenant)("session_hash", x.session_hash)("priority", x.priority);
  v("arrival_us", x.arrival_us)("deadline_us", x.deadline_us)("work", x.work)("claim", x.claim);
}
template <Is<AnswersExpected> T, class V>
void each_field(T& x, V& v) {
  v("length_class", x.length_class)("expected_p50", x.expected_p50);
  v("expected_p90", x.expected_p90);
}
template <Is<Cancel> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("reason", x.reason);
}
template <Is<Ended> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("code", x.code)("retryable", x.retryable)("detail", x.detail)("rank", x.rank);
}
template <Is<Tokens> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank)("step", x.step)("rows", x.rows);
}
template <Is<Standing> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("rank", x.rank)("done", x.done);
}
template <Is<Load> T, class V>
void each_field(T& x, V& v) {
  v("waiting", x.waiting)("waiting_tokens", x.waiting_tokens)("least_work_ps", x.least_work_ps);
  v("ranks", x.ranks)("moved", x.moved);
}

// -- chunker and prefill rank --------------------------------------------------------------------

template <Is<Assign> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("rank", x.rank)("work", x.work)("arrival_us", x.arrival_us)("claim", x.claim);
  v("lease_us", x.lease_us)("session_hash", x.session_hash);
}
template <Is<Assigned> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("rank", x.rank);
}
template <Is<Refused> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("rank", x.rank)("handoff", x.handoff)("reason", x.reason);
}
template <Is<Slice> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("first", x.first)("count", x.count)("last", x.last);
}
template <Is<RunChunks> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank)("step", x.step)("slices", x.slices);
}
template <Is<Progress> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("done", x.done)("total", x.total)("planned", x.planned);
}
template <Is<RankReport> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank)("role", x.role)("seq", x.seq)("step_next", x.step_next);
  v("wants_chunks", x.wants_chunks)("draining", x.draining);
  v("kv_blocks_free", x.kv_blocks_free)("kv_blocks_reserved", x.kv_blocks_reserved);
  v("kv_blocks_total", x.kv_blocks_total)("slots_free", x.slots_free);
  v("slots_reserved", x.slots_reserved)("slots_total", x.slots_total)("running", x.running);
  v("context_tokens", x.context_tokens)("tokens_to_come", x.tokens_to_come);
  v("last_step_tokens", x.last_step_tokens)("last_step_us", x.last_step_us);
  v("progress", x.progress)("freed", x.freed);
}

// -- handoff -------------------------------------------------------------------------------------

template <Is<PrefillDone> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("rank", x.rank)("positions", x.positions)("positions_max", x.positions_max);
  v("answered", x.answered)("new_tokens_max", x.new_tokens_max)("arrival_us", x.arrival_us);
  v("lease_us", x.lease_us)("in_place", x.in_place)("manifest", x.manifest)("claim", x.claim);
  v("session_hash", x.session_hash);
}
template <Is<Reserve> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("rank", x.rank)("handoff", x.handoff)("positions_max", x.positions_max);
  v("lease_us", x.lease_us)("answered", x.answered)("new_tokens_max", x.new_tokens_max);
  v("arrival_us", x.arrival_us)("claim", x.claim);
}
template <Is<Reserved> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("rank", x.rank)("handoff", x.handoff);
}
template <Is<Renew> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("rank", x.rank)("handoff", x.handoff)("lease_us", x.lease_us);
}
template <Is<Pull> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("rank", x.rank)("handoff", x.handoff)("source", x.source);
  v("positions", x.positions)("manifest", x.manifest);
}
template <Is<TransferDone> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("rank", x.rank)("handoff", x.handoff)("code", x.code)("digest", x.digest);
  v("detail", x.detail);
}
template <Is<Adopt> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("rank", x.rank)("handoff", x.handoff)("digest", x.digest);
}
template <Is<Adopted> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("rank", x.rank)("handoff", x.handoff);
}
template <Is<Release> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("rank", x.rank)("reason", x.reason);
}

// -- a rank and its engine -----------------------------------------------------------------------

template <Is<StepRow> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("status", x.status)("length", x.length)("drew", x.drew)("token", x.token);
}
template <Is<StepDone> T, class V>
void each_field(T& x, V& v) {
  v("step", x.step)("code", x.code)("compute_us", x.compute_us)("rows", x.rows);
  v("expert_epoch", x.expert_epoch)("expert_counts", x.expert_counts)("idle_us", x.idle_us);
}
template <Is<Exported> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("code", x.code)("manifest", x.manifest);
}
template <Is<Imported> T, class V>
void each_field(T& x, V& v) {
  v("ref", x.ref)("handoff", x.handoff)("code", x.code)("digest", x.digest)("detail", x.detail);
  v("positions", x.positions)("answered", x.answered)("new_tokens_max", x.new_tokens_max);
}

// -- lives of ranks ------------------------------------------------------------------------------

template <Is<RankUp> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank)("role", x.role)("name", x.name)("kv_blocks", x.kv_blocks);
  v("block_tokens", x.block_tokens)("slots", x.slots)("step_tokens_max", x.step_tokens_max);
  v("context_max", x.context_max);
}
template <Is<RankDown> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank)("reason", x.reason)("comes_back", x.comes_back);
}
template <Is<NoRankLeft> T, class V>
void each_field(T& x, V& v) {
  v("role", x.role)("detail", x.detail);
}
template <Is<RankStarted> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank)("code", x.code)("detail", x.detail);
}
template <Is<RankEnded> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank)("detail", x.detail);
}
template <Is<RankBeat> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank)("begun", x.begun)("works", x.works)("lane_begun", x.lane_begun);
  v("lane_works", x.lane_works);
}
template <Is<Heartbeat> T, class V>
void each_field(T& x, V& v) {
  v("ranks", x.ranks)("memory_available_bytes", x.memory_available_bytes);
}

// -- policy sets ---------------------------------------------------------------------------------

template <Is<StageRef> T, class V>
void each_field(T& x, V& v) {
  v("kind", x.kind)("rank", x.rank);
}
/// A set is one field: those who keep it have a form of their own for it.
template <Is<SwapPrepare> T, class V>
void each_field(T& x, V& v) {
  v("set", x.set)("drop_after_us", x.drop_after_us)("is_live", x.is_live);
}
template <Is<Prepared> T, class V>
void each_field(T& x, V& v) {
  v("stage", x.stage)("epoch", x.epoch)("ok", x.ok)("reason", x.reason);
}
template <Is<SwapCommit> T, class V>
void each_field(T& x, V& v) {
  v("epoch", x.epoch);
}
template <Is<Committed> T, class V>
void each_field(T& x, V& v) {
  v("stage", x.stage)("epoch", x.epoch);
}
template <Is<SwapAbort> T, class V>
void each_field(T& x, V& v) {
  v("epoch", x.epoch);
}
template <Is<SetRequest> T, class V>
void each_field(T& x, V& v) {
  v("stage", x.stage)("epoch", x.epoch);
}
template <Is<PolicyFault> T, class V>
void each_field(T& x, V& v) {
  v("stage", x.stage)("epoch", x.epoch)("kind", x.kind)("policy", x.policy)("what", x.what);
}

// -- experts, timers -----------------------------------------------------------------------------

template <Is<ExpertTopology> T, class V>
void each_field(T& x, V& v) {
  v("experts", x.experts)("slots", x.slots)("gpus", x.gpus)("groups", x.groups);
  v("nodes", x.nodes);
}
template <Is<ExpertLayerLoads> T, class V>
void each_field(T& x, V& v) {
  v("layer", x.layer)("counts", x.counts);
}
template <Is<ExpertLoads> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank)("epoch", x.epoch)("first_step", x.first_step)("steps", x.steps);
  v("layers", x.layers);
}
template <Is<ExpertPlan> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank)("epoch", x.epoch)("topology", x.topology)("maps", x.maps);
}
template <Is<Timer> T, class V>
void each_field(T& x, V& v) {
  v("kind", x.kind)("key", x.key);
}

// -- options -------------------------------------------------------------------------------------

template <Is<CostModel> T, class V>
void each_field(T& x, V& v) {
  v("step_ps", x.step_ps)("token_ps", x.token_ps)("pair_ps", x.pair_ps);
  v("image_patch_ps", x.image_patch_ps)("sequence_ps", x.sequence_ps);
  v("context_token_ps", x.context_token_ps);
}
template <Is<DriverOptions> T, class V>
void each_field(T& x, V& v) {
  v("cost_model", x.cost_model)("requests_max", x.requests_max)("attempts_max", x.attempts_max);
  v("reservation", x.reservation)("expected_permille", x.expected_permille);
  v("preemptions_max", x.preemptions_max)("request_timeout_us", x.request_timeout_us);
  v("no_progress_us", x.no_progress_us)("stuck_after_us", x.stuck_after_us);
  v("watch_every_us", x.watch_every_us)("gap_wait_us", x.gap_wait_us)("seed", x.seed);
}
template <Is<PrefillOptions> T, class V>
void each_field(T& x, V& v) {
  v("cost_model", x.cost_model)("queue_max", x.queue_max)("attempts_max", x.attempts_max);
  v("retry_us", x.retry_us)("assign_again_us", x.assign_again_us)("lease_us", x.lease_us);
  v("seed", x.seed);
}
template <Is<DecodeOptions> T, class V>
void each_field(T& x, V& v) {
  v("cost_model", x.cost_model)("attempts_max", x.attempts_max)("lease_us", x.lease_us);
  v("handoff_timeout_us", x.handoff_timeout_us)("retry_us", x.retry_us);
  v("waiting_max", x.waiting_max)("cancelled_max", x.cancelled_max)("seed", x.seed);
}
template <Is<ExpertReportOptions> T, class V>
void each_field(T& x, V& v) {
  v("layers", x.layers)("experts", x.experts)("steps_max", x.steps_max)("wait_us", x.wait_us);
}
template <Is<RankOptions> T, class V>
void each_field(T& x, V& v) {
  v("rank", x.rank)("role", x.role)("name", x.name)("kv_blocks", x.kv_blocks);
  v("block_tokens", x.block_tokens)("slots", x.slots)("step_tokens_max", x.step_tokens_max);
  v("context_max", x.context_max)("lease_us", x.lease_us)("pull_again_us", x.pull_again_us);
  v("cost_model", x.cost_model)("seed", x.seed)("experts", x.experts);
}
template <Is<ExpertMoveCosts> T, class V>
void each_field(T& x, V& v) {
  v("expert_bytes", x.expert_bytes)("link_bytes_per_s", x.link_bytes_per_s);
  v("disturbance_ps", x.disturbance_ps)("layer_ps", x.layer_ps)("steps", x.steps);
}
template <Is<ExpertOptions> T, class V>
void each_field(T& x, V& v) {
  v("layers", x.layers)("topology", x.topology)("interval_us", x.interval_us);
  v("weight_permille", x.weight_permille)("moves_max", x.moves_max)("costs", x.costs);
  v("look_steps", x.look_steps)("gap_max_millionths", x.gap_max_millionths);
  v("rounds_max", x.rounds_max)("round_cells_max", x.round_cells_max)("ranks_max", x.ranks_max);
  v("seed", x.seed);
}

} // namespace troupe::sched
