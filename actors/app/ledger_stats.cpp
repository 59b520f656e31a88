#include "actors/app/ledger_stats.hpp"

#include "actors/event_text.hpp"
#include "actors/json_writer.hpp"
#include "schedulers/core/printable.hpp"

#include <fmt/format.h>

namespace troupe::app {

namespace {

/// Whom an entry is about; zero for nobody.
struct RequestOf {
  RequestId operator()(const sched::Record& r) const { return r.ref.request; }
  RequestId operator()(const sched::Observed& o) const { return o.observation.request.ref.request; }
  RequestId operator()(const sched::Milestone& m) const { return m.ref.request; }
  RequestId operator()(const sched::Finish& f) const { return f.request; }
  RequestId operator()(const sched::SetLive&) const { return RequestId{}; }
  RequestId operator()(const sched::RequestNamed& n) const { return n.request; }
  RequestId operator()(const sched::RankChange&) const { return RequestId{}; }
  RequestId operator()(const sched::StageBegan&) const { return RequestId{}; }
  RequestId operator()(const sched::StageTook&) const { return RequestId{}; }
};

} // namespace

void LedgerStats::add(const sched::LedgerEntry& entry) {
  ++records;
  if (first_us < 0) first_us = entry.at_us;
  last_us = entry.at_us;
  const RequestId request = std::visit(RequestOf{}, entry.what);
  if (request != RequestId{}) requests.insert(request);
  if (const auto* live = std::get_if<sched::SetLive>(&entry.what)) {
    epochs[live->set.epoch].name = live->set.name;
  }
  if (std::holds_alternative<sched::StageBegan>(entry.what)) ++lives;
  if (const auto* took = std::get_if<sched::StageTook>(&entry.what)) {
    ++events;
    ++event_names[std::string(actors::event_name(*took))];
  }
  const auto* record = std::get_if<sched::Record>(&entry.what);
  if (record == nullptr) return;
  ++decisions;
  ++epochs[record->epoch].decisions;
  ++kinds[record->kind];
  if (record->reason != sched::Reason::replaced_invalid) return;
  ++invalid;
  ++fallbacks;
}

std::string stats_text(const LedgerStats& stats) {
  std::string out = fmt::format("entries     {}\nrequests    {}\ndecisions   {}\n", stats.records,
                                stats.requests.size(), stats.decisions);
  for (const auto& [kind, count] : stats.kinds)
    out += fmt::format("  {:<18}{}\n", kind, count);
  if (stats.events > 0) {
    out += fmt::format("events      {} of {} lives of stages\n", stats.events, stats.lives);
    for (const auto& [name, count] : stats.event_names)
      out += fmt::format("  {:<18}{}\n", name, count);
  }
  for (const auto& [epoch, totals] : stats.epochs) {
    out += fmt::format("epoch {:<6}{} decisions{}\n", raw(epoch), totals.decisions,
                       totals.name.empty() ? "" : " by " + quote(totals.name));
  }
  out += fmt::format("replaced    {} by the default of their kind\nlost        {} entries\n",
                     stats.fallbacks, stats.dropped);
  if (stats.first_us >= 0) {
    out += fmt::format("time        {}.{:06} s\n", (stats.last_us - stats.first_us) / 1'000'000,
                       (stats.last_us - stats.first_us) % 1'000'000);
  }
  return out;
}

std::string stats_json(const LedgerStats& stats) {
  actors::JsonWriter json;
  json.open('{').field("records", stats.records);
  json.field("requests", stats.requests.size()).field("decisions", stats.decisions);
  json.key("epochs").open('[');
  for (const auto& [epoch, totals] : stats.epochs) {
    json.open('{').field("epoch", epoch).field("name", totals.name);
    json.field("decisions", totals.decisions).close('}');
  }
  json.close(']').key("kinds").open('{');
  for (const auto& [kind, count] : stats.kinds)
    json.field(kind, count);
  json.close('}').field("lives", stats.lives).key("events").open('{');
  for (const auto& [name, count] : stats.event_names)
    json.field(name, count);
  json.close('}').field("invalid", stats.invalid).field("fallbacks", stats.fallbacks);
  json.field("dropped", stats.dropped);
  json.field("first_us", stats.first_us).field("last_us", stats.last_us);
  return json.close('}').take();
}

} // namespace troupe::app
