#include "actors/records/set_codec.hpp"

#include "actors/records/ledger.pb.h"

#include <bit>
#include <map>
#include <string>

namespace troupe::actors {

namespace {

using Choices = std::map<std::string, sched::PolicySpec>;
using ChoiceList = google::protobuf::RepeatedPtrField<records::PolicyChoice>;

/// One overload a type of option.
struct PutValue {
  records::PolicyOption& out;
  void operator()(bool value) const { out.set_boolean(value); }
  void operator()(std::int64_t value) const { out.set_integer(value); }
  void operator()(double value) const { out.set_real_bits(std::bit_cast<std::uint64_t>(value)); }
  void operator()(const std::string& value) const { out.set_text(value); }
};

OptionValue value_of(const records::PolicyOption& in) {
  if (in.has_boolean()) return {in.boolean(), in.where()};
  if (in.has_integer()) return {in.integer(), in.where()};
  if (in.has_real_bits()) return {std::bit_cast<double>(in.real_bits()), in.where()};
  return {in.text(), in.where()};
}

void put_choices(const Choices& choices, ChoiceList& out) {
  for (const auto& [kind, spec] : choices) {
    records::PolicyChoice& choice = *out.Add();
    choice.set_kind(kind);
    choice.set_policy(spec.policy);
    choice.set_table(spec.options.name());
    for (const auto& [key, value] : spec.options.values()) {
      records::PolicyOption& option = *choice.add_options();
      option.set_key(key);
      std::visit(PutValue{option}, value.value);
      option.set_where(value.where);
    }
  }
}

Choices take_choices(const ChoiceList& in) {
  Choices choices;
  for (const records::PolicyChoice& choice : in) {
    sched::PolicySpec spec{choice.policy(), OptionTable(choice.table())};
    for (const records::PolicyOption& option : choice.options())
      spec.options.set(option.key(), value_of(option));
    choices[choice.kind()] = std::move(spec);
  }
  return choices;
}

void put_probation(const sched::ProbationSpec& probation, records::Probation& out) {
  out.set_window_us(probation.window_us);
  out.set_requests_min(probation.requests_min);
  out.set_ttft_p95_permille(probation.ttft_p95_permille);
  out.set_tpot_p95_permille(probation.tpot_p95_permille);
  out.set_goodput_permille(probation.goodput_permille);
  out.set_preemptions_permille(probation.preemptions_permille);
}

} // namespace

void put(const sched::SetLive& live, records::LiveSet& out) {
  const sched::PolicySet& set = live.set;
  out.set_epoch(raw(set.epoch));
  out.set_name(set.name);
  out.set_text(set.text);
  out.set_file(set.file);
  put_choices(set.kinds, *out.mutable_kinds());
  put_choices(set.shadow, *out.mutable_shadow());
  put_choices(set.canary, *out.mutable_canary());
  for (const sched::LibrarySpec& library : set.libraries) {
    records::LibraryChoice& choice = *out.add_libraries();
    choice.set_path(library.path);
    choice.set_digest(library.digest);
    choice.set_lane(library.lane);
    choice.set_decide_us(library.decide_us);
    choice.set_create_ms(library.create_ms);
  }
  put_probation(set.probation, *out.mutable_probation());
  out.set_canary_permille(set.canary_permille);
  out.set_how(static_cast<std::uint32_t>(live.how));
  out.set_reason(live.reason);
}

Result<sched::SetLive> take_set(const records::LiveSet& in) {
  if (in.how() > static_cast<std::uint32_t>(sched::SwapCause::rollback))
    return Error{ErrorCode::parse_error, "a set that went live in an unknown way"};
  sched::SetLive live;
  sched::PolicySet& set = live.set;
  set.epoch = PolicyEpoch{in.epoch()};
  set.name = in.name();
  set.text = in.text();
  set.file = in.file();
  set.kinds = take_choices(in.kinds());
  set.shadow = take_choices(in.shadow());
  set.canary = take_choices(in.canary());
  for (const records::LibraryChoice& library : in.libraries()) {
    set.libraries.push_back({library.path(), library.digest(), library.lane(), library.decide_us(),
                             library.create_ms()});
  }
  const records::Probation& probation = in.probation();
  set.probation = {probation.window_us(),         probation.requests_min(),
                   probation.ttft_p95_permille(), probation.tpot_p95_permille(),
                   probation.goodput_permille(),  probation.preemptions_permille()};
  set.canary_permille = in.canary_permille();
  live.how = static_cast<sched::SwapCause>(in.how());
  live.reason = in.reason();
  return live;
}

} // namespace troupe::actors
