#include "actors/records/asked_codec.hpp"

#include "actors/records/columns.hpp"
#include "actors/records/ledger.pb.h"

#include <memory>
#include <utility>
#include <variant>

namespace troupe::actors {

namespace {

using records::AskedRecord;

constexpr std::uint32_t kRowsMax = 1 << 20; ///< Of one list; a file that says more is damaged.

// -- views ---------------------------------------------------------------------------------------

template <class Each>
void request_columns(records::RequestColumns& m, std::int64_t now_us, Each& each) {
  each(
      m.mutable_request(), [](auto& v) -> auto& { return v.ref.request; });
  each(
      m.mutable_attempt(), [](auto& v) -> auto& { return v.ref.attempt; });
  each(
      m.mutable_session_hash(), [](auto& v) -> auto& { return v.session_hash; });
  each(
      m.mutable_tenant_hash(), [](auto& v) -> auto& { return v.tenant_hash; });
  each(
      m.mutable_priority(), [](auto& v) -> auto& { return v.priority; });
  each.before(
      now_us, m.mutable_arrived_before_us(), [](auto& v) -> auto& { return v.arrival_us; });
  each(
      m.mutable_deadline_us(), [](auto& v) -> auto& { return v.deadline_us; });
  each(
      m.mutable_prompt(), [](auto& v) -> auto& { return v.prompt; });
  each(
      m.mutable_answered(), [](auto& v) -> auto& { return v.answered; });
  each(
      m.mutable_done(), [](auto& v) -> auto& { return v.done; });
  each(
      m.mutable_new_tokens_max(), [](auto& v) -> auto& { return v.new_tokens_max; });
  each(
      m.mutable_work_ps(), [](auto& v) -> auto& { return v.work_ps; });
  each(
      m.mutable_reservation(), [](auto& v) -> auto& { return v.claim.reservation; });
  each(
      m.mutable_expected_p50(), [](auto& v) -> auto& { return v.claim.expected_p50; });
  each(
      m.mutable_expected_p90(), [](auto& v) -> auto& { return v.claim.expected_p90; });
  each(
      m.mutable_preemptions(), [](auto& v) -> auto& { return v.claim.preemptions; });
}

template <class Each>
void rank_columns(records::RankColumns& m, std::int64_t now_us, Each& each) {
  each(
      m.mutable_rank(), [](auto& v) -> auto& { return v.rank.rank; });
  each(
      m.mutable_incarnation(), [](auto& v) -> auto& { return v.rank.incarnation; });
  each(
      m.mutable_role(), [](auto& v) -> auto& { return v.role; });
  each(
      m.mutable_draining(), [](auto& v) -> auto& { return v.draining; });
  each(
      m.mutable_held(), [](auto& v) -> auto& { return v.held; });
  each(
      m.mutable_block_tokens(), [](auto& v) -> auto& { return v.block_tokens; });
  each(
      m.mutable_context_max(), [](auto& v) -> auto& { return v.context_max; });
  each(
      m.mutable_kv_blocks_free(), [](auto& v) -> auto& { return v.kv_blocks_free; });
  each(
      m.mutable_kv_blocks_total(), [](auto& v) -> auto& { return v.kv_blocks_total; });
  each(
      m.mutable_slots_free(), [](auto& v) -> auto& { return v.slots_free; });
  each(
      m.mutable_slots_total(), [](auto& v) -> auto& { return v.slots_total; });
  each(
      m.mutable_running(), [](auto& v) -> auto& { return v.running; });
  each(
      m.mutable_context_tokens(), [](auto& v) -> auto& { return v.context_tokens; });
  each(
      m.mutable_queued(), [](auto& v) -> auto& { return v.queued; });
  each(
      m.mutable_queued_tokens(), [](auto& v) -> auto& { return v.queued_tokens; });
  each(
      m.mutable_uncached_tokens(), [](auto& v) -> auto& { return v.uncached_tokens; });
  each(
      m.mutable_work_ps(), [](auto& v) -> auto& { return v.work_ps; });
  each.before(
      now_us, m.mutable_age_us(), [](auto& v) -> auto& { return v.as_of_us; });
}

template <class Each>
void slice_columns(AskedRecord& m, Each& each) {
  each(
      m.mutable_slice_request(), [](auto& v) -> auto& { return v.ref.request; });
  each(
      m.mutable_slice_attempt(), [](auto& v) -> auto& { return v.ref.attempt; });
  each(
      m.mutable_slice_first(), [](auto& v) -> auto& { return v.first; });
  each(
      m.mutable_slice_count(), [](auto& v) -> auto& { return v.count; });
}

template <class Each>
void decode_columns(AskedRecord& m, Each& each) {
  each(
      m.mutable_decode_request(), [](auto& v) -> auto& { return v.ref.request; });
  each(
      m.mutable_decode_attempt(), [](auto& v) -> auto& { return v.ref.attempt; });
  each(
      m.mutable_decode_positions(), [](auto& v) -> auto& { return v.positions; });
}

void put_requests(std::span<const sched::RequestView> views, std::int64_t now_us,
                  records::RequestColumns& out) {
  out.set_rows(static_cast<std::uint32_t>(views.size()));
  ColumnWriter<sched::RequestView> writer(views);
  request_columns(out, now_us, writer);
}

void put_ranks(std::span<const sched::RankView> views, std::int64_t now_us,
               records::RankColumns& out) {
  out.set_rows(static_cast<std::uint32_t>(views.size()));
  ColumnWriter<sched::RankView> writer(views);
  rank_columns(out, now_us, writer);
}

/// Reads a record, and remembers whether all of it made sense.
class Taker {
public:
  std::vector<sched::RequestView> requests(records::RequestColumns& in, std::int64_t now_us) {
    std::vector<sched::RequestView> rows(rows_of(in.rows()));
    ColumnReader<sched::RequestView> reader(rows);
    request_columns(in, now_us, reader);
    ok = ok && reader.ok();
    for (const sched::RequestView& row : rows)
      ok = ok && row.claim.reservation <= sched::Reservation::shielded;
    return rows;
  }

  /// The one request of a question about one.
  sched::RequestView request(records::RequestColumns& in, std::int64_t now_us) {
    auto rows = requests(in, now_us);
    ok = ok && rows.size() == 1;
    return rows.empty() ? sched::RequestView{} : rows.front();
  }

  std::vector<sched::RankView> ranks(records::RankColumns& in, std::int64_t now_us) {
    std::vector<sched::RankView> rows(rows_of(in.rows()));
    ColumnReader<sched::RankView> reader(rows);
    rank_columns(in, now_us, reader);
    ok = ok && reader.ok();
    for (const sched::RankView& row : rows)
      ok = ok && row.role <= sched::Role::both;
    return rows;
  }

  std::size_t rows_of(std::uint32_t rows) {
    ok = ok && rows <= kRowsMax;
    return ok ? rows : 0;
  }

  sched::Reason reason(std::uint32_t value) {
    ok = ok && value <= static_cast<std::uint32_t>(sched::Reason::replaced_invalid);
    return static_cast<sched::Reason>(value);
  }

  bool ok = true;
};

RankRef rank_of(const AskedRecord& in) {
  return {RankId{in.rank()}, Incarnation{in.incarnation()}};
}

void put_rank(const RankRef& rank, AskedRecord& out) {
  out.set_rank(raw(rank.rank));
  out.set_incarnation(raw(rank.incarnation));
}

// -- context -------------------------------------------------------------------------------------

void put_context(const sched::QuestionContext& context, std::int64_t at_us,
                 records::QuestionRecord& out) {
  out.set_after_us(distance_us(context.now_us, at_us));
  out.set_seed(context.seed);
  out.set_epoch(raw(context.epoch));
  out.set_step_ps(context.cost_model.step_ps);
  out.set_token_ps(context.cost_model.token_ps);
  out.set_pair_ps(context.cost_model.pair_ps);
  out.set_image_patch_ps(context.cost_model.image_patch_ps);
  out.set_sequence_ps(context.cost_model.sequence_ps);
  out.set_context_token_ps(context.cost_model.context_token_ps);
  out.set_step_budget_ps(context.step_budget_ps);
  out.set_block_tokens(context.block_tokens);
}

sched::QuestionContext take_context(const records::QuestionRecord& in, std::int64_t at_us) {
  sched::QuestionContext context;
  context.now_us = moved_us(at_us, in.after_us());
  context.seed = in.seed();
  context.epoch = PolicyEpoch{in.epoch()};
  context.cost_model.step_ps = in.step_ps();
  context.cost_model.token_ps = in.token_ps();
  context.cost_model.pair_ps = in.pair_ps();
  context.cost_model.image_patch_ps = in.image_patch_ps();
  context.cost_model.sequence_ps = in.sequence_ps();
  context.cost_model.context_token_ps = in.context_token_ps();
  context.step_budget_ps = in.step_budget_ps();
  context.block_tokens = in.block_tokens();
  return context;
}

// -- questions -----------------------------------------------------------------------------------

void put_question(const sched::AdmissionQuestion& q, AskedRecord& out) {
  put_requests({&q.request, 1}, q.context.now_us, *out.mutable_requests());
  out.set_load_waiting(q.load.waiting);
  out.set_load_waiting_tokens(q.load.waiting_tokens);
  out.set_load_least_work_ps(q.load.least_work_ps);
  out.set_load_ranks(q.load.ranks);
  out.set_load_as_of_us(q.load.as_of_us);
}

void take_question(AskedRecord& in, Taker& taker, sched::AdmissionQuestion& q) {
  q.request = taker.request(*in.mutable_requests(), q.context.now_us);
  q.load.waiting = in.load_waiting();
  q.load.waiting_tokens = in.load_waiting_tokens();
  q.load.least_work_ps = in.load_least_work_ps();
  q.load.ranks = in.load_ranks();
  q.load.as_of_us = in.load_as_of_us();
}

void put_question(const sched::QueueQuestion& q, AskedRecord& out) {
  put_requests(q.waiting, q.context.now_us, *out.mutable_requests());
}

void take_question(AskedRecord& in, Taker& taker, sched::QueueQuestion& q) {
  q.waiting = taker.requests(*in.mutable_requests(), q.context.now_us);
}

void put_question(const sched::RouterQuestion& q, AskedRecord& out) {
  put_requests({&q.request, 1}, q.context.now_us, *out.mutable_requests());
  put_ranks(q.ranks, q.context.now_us, *out.mutable_ranks());
  out.mutable_local_hit_tokens()->Add(q.local_hit_tokens.begin(), q.local_hit_tokens.end());
}

void take_question(AskedRecord& in, Taker& taker, sched::RouterQuestion& q) {
  q.request = taker.request(*in.mutable_requests(), q.context.now_us);
  q.ranks = taker.ranks(*in.mutable_ranks(), q.context.now_us);
  q.local_hit_tokens.assign(in.local_hit_tokens().begin(), in.local_hit_tokens().end());
}

void put_question(const sched::ChunkerQuestion& q, AskedRecord& out) {
  put_requests(q.requests, q.context.now_us, *out.mutable_requests());
  put_rank(q.query.rank, out);
  out.set_step_tokens_max(q.query.step_tokens_max);
}

void take_question(AskedRecord& in, Taker& taker, sched::ChunkerQuestion& q) {
  q.requests = taker.requests(*in.mutable_requests(), q.context.now_us);
  q.query = {rank_of(in), in.step_tokens_max()};
}

void put_question(const sched::HandoffQuestion& q, AskedRecord& out) {
  put_requests({&q.query.request, 1}, q.context.now_us, *out.mutable_requests());
  put_rank(q.query.source, out);
  out.set_tries(q.query.tries);
  out.set_transfers_of_source(q.query.transfers_of_source);
  out.set_transfers(q.query.transfers);
}

void take_question(AskedRecord& in, Taker& taker, sched::HandoffQuestion& q) {
  q.query = {taker.request(*in.mutable_requests(), q.context.now_us), rank_of(in), in.tries(),
             in.transfers_of_source(), in.transfers()};
}

void put_question(const sched::BalancerQuestion& q, AskedRecord& out) {
  put_requests({&q.request, 1}, q.context.now_us, *out.mutable_requests());
  put_rank(q.source, out);
  put_ranks(q.ranks, q.context.now_us, *out.mutable_ranks());
}

void take_question(AskedRecord& in, Taker& taker, sched::BalancerQuestion& q) {
  q.request = taker.request(*in.mutable_requests(), q.context.now_us);
  q.source = rank_of(in);
  q.ranks = taker.ranks(*in.mutable_ranks(), q.context.now_us);
}

void put_question(const sched::StepQuestion& q, AskedRecord& out) {
  out.set_slices(static_cast<std::uint32_t>(q.slices.size()));
  ColumnWriter<sched::OfferedSlice> slices(q.slices);
  slice_columns(out, slices);
  out.set_decodes(static_cast<std::uint32_t>(q.decodes.size()));
  ColumnWriter<sched::DecodeView> decodes(q.decodes);
  decode_columns(out, decodes);
  out.set_step_tokens_max(q.step_tokens_max);
}

void take_question(AskedRecord& in, Taker& taker, sched::StepQuestion& q) {
  q.slices.resize(taker.rows_of(in.slices()));
  ColumnReader<sched::OfferedSlice> slices(q.slices);
  slice_columns(in, slices);
  q.decodes.resize(taker.rows_of(in.decodes()));
  ColumnReader<sched::DecodeView> decodes(q.decodes);
  decode_columns(in, decodes);
  taker.ok = taker.ok && slices.ok() && decodes.ok();
  q.step_tokens_max = in.step_tokens_max();
}

void put_question(const sched::OverlapQuestion& q, AskedRecord& out) {
  out.set_device_ps(q.view.device_ps);
  out.set_host_ps(q.view.host_ps);
  out.set_plans_held(q.view.plans_held);
  out.set_sequences(q.view.sequences);
  out.set_constrained(q.view.constrained);
  out.set_arrivals(q.view.arrivals);
  out.set_drafts(q.view.drafts);
  out.set_blocks_most(q.view.blocks_most);
  out.set_blocks_free(q.view.blocks_free);
  out.set_blocks_retiring(q.view.blocks_retiring);
}

void take_question(AskedRecord& in, Taker&, sched::OverlapQuestion& q) {
  q.view = {in.device_ps(), in.host_ps(), in.plans_held(),  in.sequences(),   in.constrained(),
            in.arrivals(),  in.drafts(),  in.blocks_most(), in.blocks_free(), in.blocks_retiring()};
}

void put_question(const sched::ExpertQuestion& q, AskedRecord& out) {
  records::ExpertQuestionRecord& to = *out.mutable_experts();
  to.set_experts(q.topology.experts);
  to.set_slots(q.topology.slots);
  to.set_gpus(q.topology.gpus);
  to.set_groups(q.topology.groups);
  to.set_nodes(q.topology.nodes);
  to.set_moves_max(q.moves_max);
  to.set_expert_bytes(q.costs.expert_bytes);
  to.set_link_bytes_per_s(q.costs.link_bytes_per_s);
  to.set_disturbance_ps(q.costs.disturbance_ps);
  to.set_layer_ps(q.costs.layer_ps);
  to.set_steps(q.costs.steps);
  for (const sched::ExpertLayer& layer : q.layers) {
    records::ExpertLayerRecord& row = *to.add_layers();
    row.mutable_loads()->Add(layer.loads.begin(), layer.loads.end());
    row.mutable_steps()->Add(layer.steps.begin(), layer.steps.end());
    row.mutable_current()->Add(layer.current.begin(), layer.current.end());
  }
}

void take_question(AskedRecord& in, Taker& taker, sched::ExpertQuestion& q) {
  const records::ExpertQuestionRecord& from = in.experts();
  taker.ok = taker.ok && in.has_experts();
  q.topology = {from.experts(), from.slots(), from.gpus(), from.groups(), from.nodes()};
  q.moves_max = from.moves_max();
  q.costs = {from.expert_bytes(), from.link_bytes_per_s(), from.disturbance_ps(), from.layer_ps(),
             from.steps()};
  for (const records::ExpertLayerRecord& row : from.layers()) {
    q.layers.push_back({{row.loads().begin(), row.loads().end()},
                        {row.steps().begin(), row.steps().end()},
                        {row.current().begin(), row.current().end()}});
  }
}

// -- answers -------------------------------------------------------------------------------------

void put_shares(const std::vector<sched::Share>& shares, AskedRecord& out) {
  for (const sched::Share& share : shares) {
    out.add_share_candidate(share.candidate);
    out.add_share_tokens(share.tokens);
  }
}

std::vector<sched::Share> take_shares(const AskedRecord& in, Taker& taker) {
  std::vector<sched::Share> shares;
  taker.ok = taker.ok && in.share_candidate_size() == in.share_tokens_size();
  for (int i = 0; taker.ok && i < in.share_candidate_size(); ++i)
    shares.push_back({in.share_candidate(i), in.share_tokens(i)});
  return shares;
}

void put_answer(sched::Admission answer, AskedRecord& out) {
  out.set_answer(static_cast<std::uint32_t>(answer));
}

void take_answer(const AskedRecord& in, Taker& taker, sched::Admission& answer) {
  taker.ok = taker.ok && in.answer() <= static_cast<std::uint32_t>(sched::Admission::reject);
  answer = static_cast<sched::Admission>(in.answer());
}

void put_answer(const sched::Order& answer, AskedRecord& out) {
  bool in_order = answer.positions.size() == out.requests().rows();
  for (std::size_t i = 0; in_order && i < answer.positions.size(); ++i)
    in_order = answer.positions[i] == i;
  out.set_in_order(in_order);
  if (!in_order) out.mutable_positions()->Add(answer.positions.begin(), answer.positions.end());
}

void take_answer(const AskedRecord& in, Taker& taker, sched::Order& answer) {
  if (in.in_order()) {
    for (std::uint32_t i = 0; taker.ok && i < in.requests().rows(); ++i)
      answer.positions.push_back(i);
    return;
  }
  answer.positions.assign(in.positions().begin(), in.positions().end());
}

void put_answer(const sched::Placement& answer, AskedRecord& out) {
  out.set_answer(raw(answer.rank));
  out.mutable_scores()->Add(answer.scores.begin(), answer.scores.end());
}

void take_answer(const AskedRecord& in, Taker&, sched::Placement& answer) {
  answer.rank = RankId{in.answer()};
  answer.scores.assign(in.scores().begin(), in.scores().end());
}

void put_answer(const sched::Slices& answer, AskedRecord& out) { put_shares(answer.shares, out); }

void take_answer(const AskedRecord& in, Taker& taker, sched::Slices& answer) {
  answer.shares = take_shares(in, taker);
}

void put_answer(const sched::HandoffPlan& answer, AskedRecord& out) {
  out.set_answer(static_cast<std::uint32_t>(answer.mode));
}

void take_answer(const AskedRecord& in, Taker& taker, sched::HandoffPlan& answer) {
  taker.ok = taker.ok && in.answer() <= static_cast<std::uint32_t>(sched::HandoffMode::whole);
  answer.mode = static_cast<sched::HandoffMode>(in.answer());
}

void put_answer(const sched::StepDecision& answer, AskedRecord& out) {
  out.mutable_positions()->Add(answer.decodes.begin(), answer.decodes.end());
  put_shares(answer.slices, out);
}

void take_answer(const AskedRecord& in, Taker& taker, sched::StepDecision& answer) {
  answer.decodes.assign(in.positions().begin(), in.positions().end());
  answer.slices = take_shares(in, taker);
}

constexpr std::uint32_t kPlanNow = 1;
constexpr std::uint32_t kMasksUnderVerify = 2;

void put_answer(const sched::OverlapPlan& answer, AskedRecord& out) {
  out.set_answer((answer.plan_now ? kPlanNow : 0) |
                 (answer.masks_under_verify ? kMasksUnderVerify : 0));
  out.set_arrival_tokens(answer.arrival_tokens);
}

void take_answer(const AskedRecord& in, Taker& taker, sched::OverlapPlan& answer) {
  taker.ok = taker.ok && in.answer() <= (kPlanNow | kMasksUnderVerify);
  answer = {(in.answer() & kPlanNow) != 0, in.arrival_tokens(),
            (in.answer() & kMasksUnderVerify) != 0};
}

void put_answer(const sched::ExpertLayout& answer, AskedRecord& out) {
  for (const sched::ExpertLayerPlan& layer : answer.layers) {
    records::ExpertMapRecord& row = *out.add_maps();
    row.mutable_slots()->Add(layer.slots.begin(), layer.slots.end());
    row.set_change(static_cast<std::uint32_t>(layer.change));
    row.set_moves(layer.moves);
    row.set_imbalance_millionths(layer.imbalance_millionths);
  }
  out.set_moves(answer.moves);
}

void take_answer(const AskedRecord& in, Taker& taker, sched::ExpertLayout& answer) {
  for (const records::ExpertMapRecord& row : in.maps()) {
    taker.ok =
        taker.ok && row.change() <= static_cast<std::uint32_t>(sched::LayerChange::kept_costs);
    answer.layers.push_back({{row.slots().begin(), row.slots().end()},
                             static_cast<sched::LayerChange>(row.change()),
                             row.moves(),
                             row.imbalance_millionths()});
  }
  answer.moves = in.moves();
}

template <class Question>
sched::Asked take_as(AskedRecord& in, const std::string& policy, std::int64_t at_us, Taker& taker) {
  auto asked = std::make_shared<sched::AskedOf<Question>>();
  asked->question.context = take_context(in.context(), at_us);
  take_question(in, taker, asked->question);
  asked->answer.reason = taker.reason(in.reason());
  asked->answer.retry_at_us = in.retry_at_us();
  if (in.has_value()) {
    typename Question::Answer answer{};
    take_answer(in, taker, answer);
    asked->answer.value = std::move(answer);
  }
  asked->policy = in.has_policy() ? in.policy() : policy;
  asked->canary = in.canary();
  asked->has_state = in.has_state();
  asked->gap = in.gap();
  asked->state = in.state();
  return sched::AskedPtr<Question>(std::move(asked));
}

template <std::size_t... I>
sched::Asked take_kind(AskedRecord& in, const std::string& policy, std::int64_t at_us, Taker& taker,
                       std::index_sequence<I...>) {
  sched::Asked out;
  (void)((in.kind() == I + 1 &&
          (out = take_as<std::remove_cvref_t<decltype(std::variant_alternative_t<I, sched::Asked> {}
                                                      -> question)>>(in, policy, at_us, taker),
           true)) ||
         ...);
  return out;
}

} // namespace

void put(const sched::Asked& asked, const std::string& policy, std::int64_t at_us,
         AskedRecord& out) {
  out.set_kind(static_cast<std::uint32_t>(asked.index() + 1));
  std::visit(
      [&](const auto& one) {
        put_context(one->question.context, at_us, *out.mutable_context());
        put_question(one->question, out);
        out.set_has_value(one->answer.value.has_value());
        out.set_reason(static_cast<std::uint32_t>(one->answer.reason));
        out.set_retry_at_us(one->answer.retry_at_us);
        if (one->answer.value) put_answer(*one->answer.value, out);
        if (one->policy != policy) out.set_policy(one->policy);
        out.set_canary(one->canary);
        out.set_has_state(one->has_state);
        out.set_gap(one->gap);
        if (!one->state.empty()) out.set_state(one->state);
      },
      asked);
}

Result<sched::Asked> take_asked(AskedRecord& in, const std::string& policy, std::int64_t at_us) {
  constexpr std::size_t kKinds = std::variant_size_v<sched::Asked>;
  if (in.kind() < 1 || in.kind() > kKinds) {
    return Error{ErrorCode::parse_error, "a question of unknown kind " + std::to_string(in.kind())};
  }
  Taker taker;
  auto asked = take_kind(in, policy, at_us, taker, std::make_index_sequence<kKinds>{});
  if (!taker.ok) return Error{ErrorCode::parse_error, "a question that contradicts itself"};
  return asked;
}

void put(const sched::QueueObservation& seen, std::int64_t at_us, records::LedgerObserved& out) {
  put_context(seen.context, at_us, *out.mutable_context());
  put_requests({&seen.request, 1}, seen.context.now_us, *out.mutable_request());
  out.set_event(static_cast<std::uint32_t>(seen.event));
}

Result<sched::QueueObservation> take_observation(records::LedgerObserved& in, std::int64_t at_us) {
  Taker taker;
  sched::QueueObservation seen;
  seen.context = take_context(in.context(), at_us);
  seen.request = taker.request(*in.mutable_request(), seen.context.now_us);
  seen.event = static_cast<sched::QueueEvent>(in.event());
  if (!taker.ok || in.event() > static_cast<std::uint32_t>(sched::QueueEvent::left)) {
    return Error{ErrorCode::parse_error, "an observation that contradicts itself"};
  }
  return seen;
}

std::span<const sched::RankView> ranks_of(const sched::Asked& asked) {
  return std::visit(
      [](const auto& one) -> std::span<const sched::RankView> {
        if constexpr (requires { one->question.ranks; }) return one->question.ranks;
        return {};
      },
      asked);
}

std::span<const std::int64_t> scores_of(const sched::Asked& asked) {
  return std::visit(
      [](const auto& one) -> std::span<const std::int64_t> {
        if constexpr (requires { one->answer.value->scores; }) {
          if (one->answer.value) return one->answer.value->scores;
        }
        return {};
      },
      asked);
}

std::string_view kind_of(const sched::Asked& asked) {
  return std::visit([](const auto& one) { return one->question.kKind; }, asked);
}

} // namespace troupe::actors
