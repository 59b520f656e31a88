#include "actors/app/replay_text.hpp"

#include "actors/json_writer.hpp"
#include "actors/ledger_text.hpp"
#include "actors/records/asked_codec.hpp"
#include "schedulers/core/printable.hpp"

#include <fmt/format.h>

namespace troupe::app {

namespace {

std::string policy_of(const sched::Asked& asked) {
  return std::visit([](const auto& one) { return one->policy; }, asked);
}

void totals(actors::JsonWriter& json, const sched::ReplayTotals& totals) {
  json.field("decisions", totals.decisions).field("equal", totals.equal);
  json.field("different", totals.different).field("skipped", totals.skipped);
  json.field("failed", totals.failed);
}

void difference(actors::JsonWriter& json, const sched::ReplayDifference& one) {
  json.open('{').field("number", one.number).field("at_us", one.at_us);
  json.field("stage", stage_text(one.stage)).field("epoch", one.epoch);
  json.field("request", one.ref.request).field("attempt", one.ref.attempt);
  json.field("kind", actors::kind_of(one.then));
  json.field("policy", policy_of(one.then)).field("then", actors::answer_words(one.then));
  json.field("policy_now", policy_of(one.now)).field("now", actors::answer_words(one.now));
  json.field("why", one.why).close('}');
}

std::string words(const sched::ReplayDifference& one) {
  std::string out = fmt::format("entry {} at {}.{:06} s, {}, epoch {}, {}", one.number,
                                one.at_us / 1'000'000, one.at_us % 1'000'000, stage_text(one.stage),
                                raw(one.epoch), actors::kind_of(one.then));
  if (one.ref.request != RequestId{}) out += fmt::format(", request {}", raw(one.ref.request));
  out += fmt::format("\n  then {}: {}\n  now  {}: {}\n", policy_of(one.then),
                     actors::answer_words(one.then), policy_of(one.now),
                     actors::answer_words(one.now));
  if (!one.why.empty()) out += "  because " + one.why + "\n";
  return out;
}

/// "rank 2, life 3".
std::string life_name(const sched::StageLife& life) {
  const std::string name = stage_text(life.stage);
  if (life.stage.kind != sched::StageKind::rank) return name;
  return fmt::format("{}, life {}", name, raw(life.stage.rank.incarnation));
}

std::string words(const sched::StageDifference& one) {
  return fmt::format("    differs at its event {}, {}, entry {} at {}.{:06} s\n      {}\n",
                     one.event, one.event_name, one.number, one.at_us / 1'000'000,
                     one.at_us % 1'000'000, one.what);
}

void life_fields(actors::JsonWriter& json, const sched::StageLife& life) {
  json.open('{').field("stage", stage_text(life.stage));
  json.field("life", life.stage.rank.incarnation).field("events", life.events);
  json.field("equal", life.equal).field("entries", life.said).field("cut", life.cut);
  json.field("stopped", life.stopped);
  if (const auto& first = life.first) {
    json.key("first").open('{').field("number", first->number).field("at_us", first->at_us);
    json.field("event", first->event).field("name", first->event_name);
    json.field("what", first->what).close('}');
  }
  json.close('}');
}

} // namespace

std::string replay_text(const sched::ReplayReport& report, const std::string& other) {
  std::string out =
      fmt::format("{} decisions: {} {}, {} different, {} skipped\n", report.all.decisions,
                  report.all.equal, other.empty() ? "equal" : "the same by " + quote(other),
                  report.all.different, report.all.skipped);
  for (const auto& [kind, of_kind] : report.kinds) {
    out += fmt::format("  {:<18}{} of {} different", kind, of_kind.different, of_kind.decisions);
    if (of_kind.skipped > 0) out += fmt::format(", {} skipped", of_kind.skipped);
    if (of_kind.failed > 0) out += fmt::format(", {} failed", of_kind.failed);
    out += '\n';
  }
  for (const auto& [why, count] : report.skipped)
    out += fmt::format("skipped {}: {}\n", count, why);
  for (const auto& [kind, why] : report.failed) {
    out +=
        fmt::format("failed {}: {} policy {}; the default of the kind answered instead, and that "
                    "is what was compared\n",
                    report.kinds.at(kind).failed, kind, message_line(why));
  }
  if (report.state_differs > 0) {
    out += fmt::format("{} recorded states are not what the decisions before them lead to\n",
                       report.state_differs);
  }
  for (const sched::ReplayDifference& one : report.first)
    out += words(one);
  return out;
}

std::string stages_text(const sched::StagesReport& report) {
  if (!report.has_events()) return {};
  std::string out = fmt::format(
      "{} lives of stages, {} events: {} equal, {} lives different, {} not to their "
      "end\n",
      report.lives.size(), report.events(), report.equal(), report.different(), report.stopped());
  for (const sched::StageLife& life : report.lives) {
    out += fmt::format("  {:<18}{} of {} events equal, {} entries compared\n", life_name(life),
                       life.equal, life.events, life.said);
    if (!life.stopped.empty()) {
      out += fmt::format("    followed no further: {}; its decisions are compared above\n",
                         life.stopped);
    }
    if (life.first) out += words(*life.first);
  }
  return out;
}

std::string replay_json(const sched::ReplayReport& report, const sched::StagesReport& stages) {
  actors::JsonWriter json;
  json.open('{');
  totals(json, report.all);
  json.key("kinds").open('{');
  for (const auto& [kind, of_kind] : report.kinds) {
    json.key(kind).open('{');
    totals(json, of_kind);
    json.close('}');
  }
  json.close('}').key("first").open('[');
  for (const sched::ReplayDifference& one : report.first)
    difference(json, one);
  json.close(']').key("skipped_why").open('{');
  for (const auto& [why, count] : report.skipped)
    json.key_text(why).value(count);
  json.close('}').key("failed_first").open('{');
  for (const auto& [kind, why] : report.failed)
    json.key_text(kind).value(why);
  json.close('}').field("unasked", report.unasked);
  json.field("state_differs", report.state_differs).key("stages").open('{');
  json.field("events", stages.events()).field("equal", stages.equal());
  json.field("different", stages.different()).field("stopped", stages.stopped());
  json.key("lives").open('[');
  for (const sched::StageLife& life : stages.lives)
    life_fields(json, life);
  json.close(']').close('}');
  return json.close('}').take();
}

} // namespace troupe::app
