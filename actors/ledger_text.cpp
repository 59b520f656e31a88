#include "actors/ledger_text.hpp"

#include "actors/event_text.hpp"
#include "actors/json_writer.hpp"
#include "actors/records/asked_codec.hpp"
#include "schedulers/core/printable.hpp"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <utility>

namespace troupe::actors {

namespace {

using sched::reason_name;

constexpr std::array<std::string_view, 4> kQueueEvents = {"entered", "served", "returned", "left"};
constexpr std::array<std::string_view, 3> kReservations = {"worst", "expected", "shielded"};
constexpr std::array<std::string_view, 5> kLayerChanges = {"placed", "moved", "kept_balanced",
                                                           "kept_loads", "kept_costs"};
constexpr std::array<std::string_view, 4> kEndReasons = {"none", "eos", "stop_id", "length"};

template <std::size_t N, class Enum>
std::string_view name_in(const std::array<std::string_view, N>& names, Enum value) {
  const auto at = static_cast<std::size_t>(value);
  return at < N ? names[at] : "unknown";
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes)
    fmt::format_to(std::back_inserter(out), "{:02x}", static_cast<unsigned char>(c));
  return out;
}

// -- views ---------------------------------------------------------------------------------------

void fields(JsonWriter& json, const RequestRef& ref) {
  json.field("request", ref.request).field("attempt", ref.attempt);
}

void fields(JsonWriter& json, const RankRef& rank) {
  json.field("rank", rank.rank).field("incarnation", rank.incarnation);
}

void fields(JsonWriter& json, const sched::RequestView& view) {
  fields(json, view.ref);
  json.field("session_hash", view.session_hash).field("tenant_hash", view.tenant_hash);
  json.field("priority", view.priority).field("arrival_us", view.arrival_us);
  json.field("deadline_us", view.deadline_us).field("prompt", view.prompt);
  json.field("answered", view.answered).field("done", view.done);
  json.field("new_tokens_max", view.new_tokens_max).field("work_ps", view.work_ps);
  json.field("reservation", name_in(kReservations, view.claim.reservation));
  json.field("expected_p50", view.claim.expected_p50);
  json.field("expected_p90", view.claim.expected_p90);
  json.field("preemptions", view.claim.preemptions);
}

void fields(JsonWriter& json, const sched::RankView& view) {
  fields(json, view.rank);
  json.field("role", std::string_view(sched::role_name(view.role)));
  json.field("draining", view.draining).field("held", view.held);
  json.field("block_tokens", view.block_tokens).field("context_max", view.context_max);
  json.field("kv_blocks_free", view.kv_blocks_free);
  json.field("kv_blocks_total", view.kv_blocks_total);
  json.field("slots_free", view.slots_free).field("slots_total", view.slots_total);
  json.field("running", view.running).field("context_tokens", view.context_tokens);
  json.field("queued", view.queued).field("queued_tokens", view.queued_tokens);
  json.field("uncached_tokens", view.uncached_tokens).field("work_ps", view.work_ps);
  json.field("as_of_us", view.as_of_us);
}

void fields(JsonWriter& json, const sched::OfferedSlice& slice) {
  fields(json, slice.ref);
  json.field("first", slice.first).field("count", slice.count);
}

void fields(JsonWriter& json, const sched::DecodeView& view) {
  fields(json, view.ref);
  json.field("positions", view.positions);
}

void fields(JsonWriter& json, const sched::Share& share) {
  json.field("candidate", share.candidate).field("tokens", share.tokens);
}

void fields(JsonWriter& json, const sched::Candidate& one) {
  json.field("rank", one.rank).field("score", one.score).field("feasible", one.feasible);
}

void fields(JsonWriter& json, const sched::QuestionContext& context) {
  const sched::CostModel& model = context.cost_model;
  json.field("now_us", context.now_us).field("seed", context.seed).field("epoch", context.epoch);
  json.key("cost_model").open('{');
  json.field("step_ps", model.step_ps).field("token_ps", model.token_ps);
  json.field("pair_ps", model.pair_ps).field("image_patch_ps", model.image_patch_ps);
  json.field("sequence_ps", model.sequence_ps);
  json.field("context_token_ps", model.context_token_ps).close('}');
  json.field("step_budget_ps", context.step_budget_ps).field("block_tokens", context.block_tokens);
}

template <class Values>
void values(JsonWriter& json, std::string_view name, const Values& list) {
  json.key(name).open('[');
  for (const auto& value : list)
    json.value(value);
  json.close(']');
}

void fields(JsonWriter& json, const sched::ExpertLayer& layer) {
  values(json, "loads", layer.loads);
  values(json, "steps", layer.steps);
  values(json, "current", layer.current);
}

void fields(JsonWriter& json, const sched::ExpertLayerPlan& layer) {
  values(json, "slots", layer.slots);
  json.field("change", name_in(kLayerChanges, layer.change)).field("moves", layer.moves);
  json.field("imbalance_millionths", layer.imbalance_millionths);
}

template <class View>
void object(JsonWriter& json, std::string_view name, const View& view) {
  json.key(name).open('{');
  fields(json, view);
  json.close('}');
}

template <class Rows>
void objects(JsonWriter& json, std::string_view name, const Rows& rows) {
  json.key(name).open('[');
  for (const auto& row : rows) {
    json.open('{');
    fields(json, row);
    json.close('}');
  }
  json.close(']');
}

// -- questions and answers -----------------------------------------------------------------------

void question(JsonWriter& json, const sched::AdmissionQuestion& q) {
  object(json, "request", q.request);
  json.key("load").open('{');
  json.field("waiting", q.load.waiting).field("waiting_tokens", q.load.waiting_tokens);
  json.field("least_work_ps", q.load.least_work_ps).field("ranks", q.load.ranks);
  json.field("as_of_us", q.load.as_of_us).close('}');
}

void question(JsonWriter& json, const sched::QueueQuestion& q) {
  objects(json, "waiting", q.waiting);
}

void question(JsonWriter& json, const sched::RouterQuestion& q) {
  object(json, "request", q.request);
  objects(json, "ranks", q.ranks);
  values(json, "local_hit_tokens", q.local_hit_tokens);
}

void question(JsonWriter& json, const sched::ChunkerQuestion& q) {
  object(json, "rank", q.query.rank);
  json.field("step_tokens_max", q.query.step_tokens_max);
  objects(json, "requests", q.requests);
}

void question(JsonWriter& json, const sched::HandoffQuestion& q) {
  object(json, "request", q.query.request);
  object(json, "source", q.query.source);
  json.field("tries", q.query.tries);
  json.field("transfers_of_source", q.query.transfers_of_source);
  json.field("transfers", q.query.transfers);
}

void question(JsonWriter& json, const sched::BalancerQuestion& q) {
  object(json, "request", q.request);
  object(json, "source", q.source);
  objects(json, "ranks", q.ranks);
}

void question(JsonWriter& json, const sched::StepQuestion& q) {
  objects(json, "slices", q.slices);
  objects(json, "decodes", q.decodes);
  json.field("step_tokens_max", q.step_tokens_max);
}

void question(JsonWriter& json, const sched::OverlapQuestion& q) {
  json.field("device_ps", q.view.device_ps).field("host_ps", q.view.host_ps);
  json.field("plans_held", q.view.plans_held).field("sequences", q.view.sequences);
  json.field("constrained", q.view.constrained).field("arrivals", q.view.arrivals);
  json.field("drafts", q.view.drafts).field("blocks_most", q.view.blocks_most);
  json.field("blocks_free", q.view.blocks_free).field("blocks_retiring", q.view.blocks_retiring);
}

void question(JsonWriter& json, const sched::ExpertQuestion& q) {
  json.key("topology").open('{');
  json.field("experts", q.topology.experts).field("slots", q.topology.slots);
  json.field("gpus", q.topology.gpus).field("groups", q.topology.groups);
  json.field("nodes", q.topology.nodes).close('}').key("costs").open('{');
  json.field("expert_bytes", q.costs.expert_bytes);
  json.field("link_bytes_per_s", q.costs.link_bytes_per_s);
  json.field("disturbance_ps", q.costs.disturbance_ps).field("layer_ps", q.costs.layer_ps);
  json.field("steps", q.costs.steps).close('}').field("moves_max", q.moves_max);
  objects(json, "layers", q.layers);
}

void answer(JsonWriter& json, sched::Admission value) {
  json.field("admit", value == sched::Admission::admit);
}

void answer(JsonWriter& json, const sched::Order& value) {
  values(json, "positions", value.positions);
}

void answer(JsonWriter& json, const sched::Placement& value) {
  json.field("rank", value.rank);
  values(json, "scores", value.scores);
}

void answer(JsonWriter& json, const sched::Slices& value) { objects(json, "shares", value.shares); }

void answer(JsonWriter& json, const sched::HandoffPlan&) {
  json.field("mode", std::string_view("whole"));
}

void answer(JsonWriter& json, const sched::StepDecision& value) {
  values(json, "decodes", value.decodes);
  objects(json, "slices", value.slices);
}

void answer(JsonWriter& json, const sched::OverlapPlan& value) {
  json.field("plan_now", value.plan_now).field("arrival_tokens", value.arrival_tokens);
  json.field("masks_under_verify", value.masks_under_verify);
}

void answer(JsonWriter& json, const sched::ExpertLayout& value) {
  objects(json, "layers", value.layers);
  json.field("moves", value.moves);
}

void asked_fields(JsonWriter& json, const sched::Asked& asked) {
  std::visit(
      [&](const auto& one) {
        json.key("question").open('{');
        object(json, "context", one->question.context);
        question(json, one->question);
        json.close('}').key("answer").open('{');
        if (one->answer.value) answer(json, *one->answer.value);
        json.field("reason", reason_name(one->answer.reason));
        json.field("retry_at_us", one->answer.retry_at_us).close('}');
        json.field("asked_policy", one->policy).field("canary", one->canary);
        json.field("has_state", one->has_state).field("gap", one->gap);
        json.field("state_hex", hex(one->state));
      },
      asked);
}

// -- policy sets ---------------------------------------------------------------------------------

void option(JsonWriter& json, const std::string& key, const OptionValue& value) {
  json.key(key);
  std::visit([&](const auto& one) { json.value(one); }, value.value);
}

void choices(JsonWriter& json, std::string_view name,
             const std::map<std::string, sched::PolicySpec>& specs) {
  json.key(name).open('{');
  for (const auto& [kind, spec] : specs) {
    json.key(kind).open('{').field("policy", spec.policy).key("options").open('{');
    for (const auto& [key, value] : spec.options.values())
      option(json, key, value);
    json.close('}').close('}');
  }
  json.close('}');
}

// -- entries -------------------------------------------------------------------------------------

struct JsonOf {
  JsonWriter& json;

  void operator()(const sched::Record& r) const {
    json.field("kind", r.kind).field("policy", r.policy).field("epoch", r.epoch);
    fields(json, r.ref);
    fields(json, r.rank);
    json.field("reason", reason_name(r.reason)).field("value", r.value);
    json.field("view_age_us", r.view_age_us).field("too_large", r.too_large);
    objects(json, "candidates", r.candidates);
    if (r.asked) asked_fields(json, *r.asked);
  }
  void operator()(const sched::Observed& o) const {
    json.field("epoch", o.epoch);
    json.field("event", name_in(kQueueEvents, o.observation.event));
    object(json, "context", o.observation.context);
    object(json, "request", o.observation.request);
  }
  void operator()(const sched::Milestone& m) const {
    fields(json, m.ref);
    json.field("phase", phase_name(m.phase));
    fields(json, m.rank);
    json.field("value", m.value).field("detail", m.detail);
  }
  void operator()(const sched::Finish& f) const {
    json.field("request", f.request).field("code", error_name(f.code));
    json.field("end", name_in(kEndReasons, f.end)).field("detail", f.detail);
    json.field("attempts", f.attempts).field("arrival_us", f.arrival_us);
    json.field("first_token_us", f.first_token_us).field("end_us", f.end_us);
    json.field("output_tokens", f.output_tokens).field("preemptions", f.preemptions);
  }
  void operator()(const sched::SetLive& live) const {
    const sched::PolicySet& set = live.set;
    json.field("epoch", set.epoch).field("name", set.name);
    json.field("how", swap_cause_name(live.how)).field("reason", live.reason);
    json.field("file", set.file).field("text", set.text);
    choices(json, "kinds", set.kinds);
    choices(json, "shadow", set.shadow);
    choices(json, "canary", set.canary);
    json.field("canary_permille", set.canary_permille).key("libraries").open('[');
    for (const sched::LibrarySpec& library : set.libraries) {
      json.open('{').field("path", library.path).field("digest", library.digest);
      json.field("lane", library.lane).field("decide_us", library.decide_us);
      json.field("create_ms", library.create_ms).close('}');
    }
    json.close(']').key("probation").open('{');
    json.field("window_us", set.probation.window_us);
    json.field("requests_min", set.probation.requests_min);
    json.field("ttft_p95_permille", set.probation.ttft_p95_permille);
    json.field("tpot_p95_permille", set.probation.tpot_p95_permille);
    json.field("goodput_permille", set.probation.goodput_permille);
    json.field("preemptions_permille", set.probation.preemptions_permille).close('}');
  }
  void operator()(const sched::RequestNamed& named) const {
    json.field("request", named.request).field("custom_id", named.custom_id);
  }
  void operator()(const sched::RankChange& change) const {
    fields(json, change.rank);
    json.field("name", change.name).field("role", std::string_view(sched::role_name(change.role)));
    json.field("up", change.up);
  }
  void operator()(const sched::StageBegan& began) const { event_fields(json, began); }
  void operator()(const sched::StageTook& took) const { event_fields(json, took); }
};

std::string ref_words(const RequestRef& ref) {
  if (ref.request == RequestId{}) return {};
  return fmt::format(" request {} attempt {}", raw(ref.request), raw(ref.attempt));
}

struct WordsOf {
  std::string operator()(const sched::Record& r) const {
    std::string out =
        fmt::format("{} by {} (epoch {}):{}", r.kind, r.policy, raw(r.epoch), ref_words(r.ref));
    if (r.asked) return out + " " + answer_words(*r.asked);
    out += fmt::format(" rank {}, {}", raw(r.rank.rank), reason_name(r.reason));
    return r.too_large ? out + ", its question was too large to be kept" : out;
  }
  std::string operator()(const sched::Observed& o) const {
    return fmt::format("queue policy saw{} {}", ref_words(o.observation.request.ref),
                       name_in(kQueueEvents, o.observation.event));
  }
  std::string operator()(const sched::Milestone& m) const {
    std::string out = fmt::format("milestone:{} {}", ref_words(m.ref), phase_name(m.phase));
    if (m.rank != RankRef{}) out += fmt::format(" rank {}", raw(m.rank.rank));
    return m.detail.empty() ? out : out + ": " + m.detail;
  }
  std::string operator()(const sched::Finish& f) const {
    std::string out =
        fmt::format("finish: request {} {} after {} us, {} tokens, attempts {}", raw(f.request),
                    error_name(f.code), f.end_us - f.arrival_us, f.output_tokens, f.attempts);
    return f.detail.empty() ? out : out + ": " + f.detail;
  }
  std::string operator()(const sched::SetLive& live) const {
    return fmt::format("set live: epoch {} \"{}\" by {}{}", raw(live.set.epoch), live.set.name,
                       swap_cause_name(live.how), live.reason.empty() ? "" : ": " + live.reason);
  }
  std::string operator()(const sched::RequestNamed& named) const {
    return fmt::format("named: request {} is {}", raw(named.request), named.custom_id);
  }
  std::string operator()(const sched::RankChange& change) const {
    return fmt::format("rank {} ({}): life {} {}", raw(change.rank.rank), change.name,
                       raw(change.rank.incarnation), change.up ? "begins" : "is over");
  }
  std::string operator()(const sched::StageBegan& began) const {
    return fmt::format("stage begins: by policy set \"{}\", epoch {}", began.policies.name,
                       raw(began.policies.epoch));
  }
  std::string operator()(const sched::StageTook& took) const {
    return fmt::format("event {}: {}, {} effects", took.number, event_name(took),
                       took.effects.size());
  }
};

struct AnswerWords {
  template <class Question>
  std::string operator()(const sched::AskedPtr<Question>& asked) const {
    const auto& answer = asked->answer;
    std::string out = answer.value ? words(asked->question, *answer.value) : "nothing";
    out += fmt::format(", {}", reason_name(answer.reason));
    if (answer.retry_at_us != 0) out += fmt::format(", again at {} us", answer.retry_at_us);
    return out;
  }

  static std::string words(const sched::AdmissionQuestion&, sched::Admission value) {
    return value == sched::Admission::admit ? "admit" : "reject";
  }
  static std::string words(const sched::QueueQuestion& q, const sched::Order& order) {
    constexpr std::size_t kShown = 8;
    std::string out = "order";
    for (std::size_t i = 0; i < order.positions.size() && i < kShown; ++i) {
      const std::uint32_t at = order.positions[i];
      if (at < q.waiting.size()) out += fmt::format(" {}", raw(q.waiting[at].ref.request));
    }
    const std::size_t size = order.positions.size();
    return size <= kShown ? out : out + fmt::format(" and {} more", size - kShown);
  }
  template <class Question>
  static std::string words(const Question& q, const sched::Placement& placement) {
    std::string out = fmt::format("rank {}", raw(placement.rank));
    for (std::size_t i = 0; i < placement.scores.size() && i < q.ranks.size(); ++i) {
      out += fmt::format("{}{}:{}", i == 0 ? ", scores " : " ", raw(q.ranks[i].rank.rank),
                         placement.scores[i]);
    }
    return out;
  }
  static std::string words(const sched::ChunkerQuestion& q, const sched::Slices& slices) {
    std::string out = fmt::format("for rank {}:", raw(q.query.rank.rank));
    for (const sched::Share& share : slices.shares) {
      if (share.candidate < q.requests.size()) {
        out += fmt::format(" {} tokens of {}", share.tokens,
                           raw(q.requests[share.candidate].ref.request));
      }
    }
    return out;
  }
  static std::string words(const sched::HandoffQuestion& q, const sched::HandoffPlan&) {
    return fmt::format("whole, from rank {}", raw(q.query.source.rank));
  }
  static std::string words(const sched::ExpertQuestion&, const sched::ExpertLayout& layout) {
    return fmt::format("{} moves in {} layers", layout.moves, layout.layers.size());
  }
  static std::string words(const sched::StepQuestion& q, const sched::StepDecision& step) {
    std::string out = fmt::format("{} decodes", step.decodes.size());
    for (const sched::Share& share : step.slices) {
      if (share.candidate < q.slices.size()) {
        out += fmt::format(", {} tokens of {}", share.tokens,
                           raw(q.slices[share.candidate].ref.request));
      }
    }
    return out;
  }
  static std::string words(const sched::OverlapQuestion& q, const sched::OverlapPlan& plan) {
    return fmt::format("{} for {} sequences", plan.plan_now ? "plan now" : "wait",
                       q.view.sequences);
  }
};

} // namespace

std::string_view entry_kind(const sched::LedgerEntry& entry) noexcept {
  static constexpr std::array<std::string_view, 9> kNames = {"decision",    "observed", "milestone",
                                                             "finish",      "set_live", "named",
                                                             "rank_change", "began",    "event"};
  static_assert(kNames.size() == std::variant_size_v<decltype(entry.what)>);
  return kNames[entry.what.index()];
}

std::string entry_json(const sched::LedgerEntry& entry) {
  JsonWriter json;
  json.open('{').field("n", entry.number).field("at_us", entry.at_us);
  json.field("stage", stage_text(entry.stage));
  json.field("life", entry.stage.rank.incarnation).field("what", entry_kind(entry));
  std::visit(JsonOf{json}, entry.what);
  return json.close('}').take();
}

std::string answer_words(const sched::Asked& asked) { return std::visit(AnswerWords{}, asked); }

std::string entry_words(const sched::LedgerEntry& entry) {
  return fmt::format("{} {}.{:06} s {}: {}", entry.number, entry.at_us / 1'000'000,
                     entry.at_us % 1'000'000, stage_text(entry.stage),
                     message_line(std::visit(WordsOf{}, entry.what)));
}

} // namespace troupe::actors
