#include "actors/app/control_documents.hpp"

#include <nlohmann/json.hpp>

namespace troupe::app {

namespace {

using Json = nlohmann::ordered_json;

/// Texts of users and of policies may hold anything.
std::string line_of(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json kind_json(const std::string& kind, const sched::PolicySpec* spec, const sched::PolicySet& set,
               const sched::PolicyRegistry& registry) {
  const bool is_default = spec == nullptr || spec->policy.empty();
  const std::string policy = is_default ? registry.default_name(kind) : spec->policy;
  Json out = {{"policy", policy}, {"library", nullptr}, {"version", nullptr}};
  if (const auto* library = registry.library_of(kind, policy, set.libraries)) {
    out["library"] = library->path;
    out["version"] = or_null(registry.version_of(*library));
    out["digest"] = or_null(library->digest);
  }
  return out;
}

Json shadow_json(const actors::ManagerView& view) {
  Json out = Json::object();
  for (const auto& [kind, spec] : view.live.shadow) {
    const auto found = view.shadow.find(kind);
    const actors::ShadowTotals totals =
        found == view.shadow.end() ? actors::ShadowTotals{} : found->second;
    out[kind] = {{"policy", spec.policy},
                 {"decisions", totals.decisions},
                 {"disagreed", totals.disagreed},
                 {"dropped", totals.dropped},
                 {"failed", totals.failed}};
  }
  return out;
}

Json canary_json(const actors::ManagerView& view) {
  Json kinds = Json::object();
  for (const auto& [kind, spec] : view.live.canary)
    kinds[kind] = spec.policy;
  return {{"share", static_cast<double>(view.live.canary_permille) / 1000.0},
          {"decisions", view.canary_decisions},
          {"kinds", kinds}};
}

Json faults_json(const actors::ManagerView& view) {
  Json out = Json::array();
  for (const sched::FaultTotal& total : view.faults) {
    out.push_back({{"stage", sched::stage_text(total.fault.stage)},
                   {"kind", total.fault.kind},
                   {"policy", total.fault.policy},
                   {"what", total.fault.what},
                   {"times", total.times}});
  }
  return out;
}

void put_live(const actors::ManagerView& view, Json& out) {
  out["epoch"] = raw(view.live.epoch);
  out["name"] = view.live.name;
  out["state"] = view.probation ? "probation" : "live";
}

Json errors_json(const std::vector<ConfigError>& errors) {
  Json out = Json::array();
  for (const ConfigError& error : errors) {
    out.push_back({{"file", error.file},
                   {"line", error.line},
                   {"key", error.key},
                   {"message", error.message}});
  }
  return out;
}

Json ranks_json(const actors::MetricsSample& sample) {
  Json out = Json::array();
  for (const actors::RankSample& rank : sample.ranks) {
    out.push_back({{"name", rank.name},
                   {"kv_blocks_held", rank.kv_blocks_held},
                   {"kv_blocks_total", rank.kv_blocks_total},
                   {"slots_held", rank.slots_held},
                   {"slots_total", rank.slots_total},
                   {"steps", rank.steps},
                   {"busy_us", rank.busy_us},
                   {"preempted", rank.preempted}});
  }
  return out;
}

Json stages_json(const actors::MetricsSample& sample) {
  Json out = Json::array();
  for (const actors::StageSample& stage : sample.stages) {
    std::int64_t decisions = 0;
    for (const actors::DecisionCount& count : stage.decisions)
      decisions += count.count;
    out.push_back({{"name", stage.name},
                   {"decisions", decisions},
                   {"invalid_decisions", stage.invalid_decisions},
                   {"retried", stage.retried}});
  }
  return out;
}

/// Not known is null.
Json balance_json(std::int64_t permille) {
  return permille < 0 ? Json() : Json(static_cast<double>(permille) / 1000.0);
}

Json experts_json(const actors::ExpertSample& experts) {
  return {{"epoch", experts.epoch},
          {"balancedness_predicted", balance_json(experts.predicted_permille)},
          {"balancedness_realised", balance_json(experts.realised_permille)},
          {"plans", experts.plans},
          {"moves", experts.moves},
          {"reports", experts.reports},
          {"bad_layers", experts.bad_layers}};
}

Json decisions_json(const std::vector<actors::RecentDecision>& decisions) {
  Json out = Json::array();
  for (const actors::RecentDecision& one : decisions) {
    out.push_back({{"stage", one.stage},
                   {"kind", one.kind},
                   {"policy", one.policy},
                   {"reason", sched::reason_name(one.reason)},
                   {"epoch", raw(one.epoch)},
                   {"request", raw(one.ref.request)},
                   {"rank", raw(one.rank.rank)},
                   {"value", one.value}});
  }
  return out;
}

} // namespace

std::string show_document(const actors::ManagerView& view, const sched::PolicyRegistry& registry) {
  Json out;
  put_live(view, out);
  Json kinds = Json::object();
  for (const std::string& kind : registry.kinds()) {
    const auto chosen = view.live.kinds.find(kind);
    kinds[kind] = kind_json(kind, chosen == view.live.kinds.end() ? nullptr : &chosen->second,
                            view.live, registry);
  }
  out["kinds"] = kinds;
  out["shadow"] = shadow_json(view);
  out["canary"] = canary_json(view);
  out["swapping"] = view.swapping;
  out["file"] = or_null(view.live.file);
  out["faults"] = faults_json(view);
  return line_of(out);
}

std::string check_document(const std::vector<ConfigError>& errors) {
  return line_of({{"ok", errors.empty()}, {"errors", errors_json(errors)}});
}

std::string diff_document(const sched::PolicySet& a, const sched::PolicySet& b,
                          const sched::PolicyRegistry& registry) {
  Json rows = Json::array();
  for (const PolicyDifference& row : policy_differences(a, b, registry)) {
    rows.push_back({{"key", row.key}, {"a", or_null(row.before)}, {"b", or_null(row.after)}});
  }
  return line_of(
      {{"equal", rows.empty()}, {"a", a.name}, {"b", b.name}, {"differences", std::move(rows)}});
}

std::string ended_document(const sched::SwapEnded& ended) {
  return line_of({{"ok", ended.ok},
                  {"epoch", raw(ended.epoch)},
                  {"name", ended.name},
                  {"reason", ended.reason}});
}

std::string refused_document(const actors::ManagerView& view,
                             const std::vector<ConfigError>& errors) {
  return line_of({{"ok", false},
                  {"epoch", raw(view.live.epoch)},
                  {"name", view.live.name},
                  {"reason", error_lines(errors)},
                  {"errors", errors_json(errors)}});
}

std::string history_document(const actors::ManagerView& view) {
  Json sets = Json::array();
  for (const sched::SetHistory& one : view.history) {
    const bool is_live = &one == &view.history.back();
    sets.push_back({{"epoch", raw(one.set.epoch)},
                    {"name", one.set.name},
                    {"from_us", one.from_us},
                    {"to_us", is_live ? Json() : Json(one.to_us)},
                    {"how", sched::swap_cause_name(one.how)},
                    {"reason", one.reason},
                    {"passed", one.passed}});
  }
  return line_of({{"sets", std::move(sets)}});
}

std::string ledger_document(const LedgerPlace& place) {
  return line_of({{"folder", or_null(place.folder)},
                  {"next_number", place.next_number},
                  {"at_us", place.at_us}});
}

std::string top_document(const TopSample& top, const actors::ManagerView& view) {
  Json out;
  out["at_us"] = top.at_us;
  put_live(view, out);
  out["swapping"] = view.swapping;
  out["job"] = {{"succeeded", top.job.succeeded},
                {"failed", top.job.failed},
                {"running", top.metrics.requests_running},
                {"waiting", top.metrics.requests_waiting},
                {"prompt_tokens", top.job.prompt_tokens},
                {"output_tokens", top.job.output_tokens},
                {"prompt_tokens_per_s", top.prompt_tokens_per_s},
                {"output_tokens_per_s", top.output_tokens_per_s}};
  out["ranks"] = ranks_json(top.metrics);
  out["rank_restarts"] = top.metrics.rank_restarts;
  out["stages"] = stages_json(top.metrics);
  out["experts"] = experts_json(top.metrics.experts);
  out["shadow"] = shadow_json(view);
  out["canary"] = canary_json(view);
  out["faults"] = faults_json(view);
  out["decisions"] = decisions_json(top.decisions);
  return line_of(out);
}

} // namespace troupe::app
