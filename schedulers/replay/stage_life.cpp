#include "schedulers/replay/stage_life.hpp"

#include "schedulers/stage/effect_digest.hpp"
#include "schedulers/stage/field_walker.hpp"
#include "schedulers/stage/slot_pack.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace troupe::sched {

namespace {

/// "decision step", "milestone".
std::string said_name(const LedgerEntry& entry) {
  if (const auto* record = std::get_if<Record>(&entry.what)) return "decision " + record->kind;
  if (std::holds_alternative<Observed>(entry.what)) return "observation of the queue policy";
  if (std::holds_alternative<Milestone>(entry.what)) return "milestone";
  return std::holds_alternative<Finish>(entry.what) ? "ending" : "life of a rank";
}

/// Calls `use` with what a stage said. @pre the entry is such
template <class Use>
auto with_said(const LedgerEntry& entry, Use use) {
  if (const auto* record = std::get_if<Record>(&entry.what)) return use(*record);
  if (const auto* observed = std::get_if<Observed>(&entry.what)) return use(*observed);
  if (const auto* milestone = std::get_if<Milestone>(&entry.what)) return use(*milestone);
  if (const auto* finish = std::get_if<Finish>(&entry.what)) return use(*finish);
  return use(std::get<RankChange>(entry.what));
}

std::string bytes_of(const LedgerEntry& entry) {
  return with_said(entry, [](const auto& said) { return bytes_of_fields(said); });
}

FieldRows rows_of(const LedgerEntry& entry) {
  return with_said(entry, [](const auto& said) { return rows_of_fields(said); });
}

bool same(const LedgerEntry& then, const LedgerEntry& now) {
  return then.what.index() == now.what.index() && bytes_of(then) == bytes_of(now);
}

/// An effect with its fields, but for what stands in its lists of numbers.
std::string effect_text(const Effect& effect) {
  constexpr std::size_t kShown = 40;
  std::size_t shown = 0;
  std::string out = effect_name(effect) + " with ";
  for (const auto& [path, value] :
       std::visit([](const auto& one) { return rows_of_fields(one); }, effect)) {
    if (path.ends_with(']')) continue;
    if (++shown > kShown) return out + ", ...";
    out += (shown == 1 ? "" : ", ") + path + " " + value;
  }
  return out;
}

/// How the effects of an event differ from those it had; "" when they do not.
std::string other_effects(const std::vector<std::uint32_t>& then, const Effects& now) {
  const std::vector<Effect>& list = now.list();
  for (std::size_t i = 0; i < std::min(then.size(), list.size()); ++i) {
    if (then[i] == digest_of(list[i])) continue;
    return "effect " + std::to_string(i + 1) + " of " + std::to_string(then.size()) +
           " was another one; now it is " + effect_text(list[i]);
  }
  if (then.size() == list.size()) return {};
  std::string out = "found " + std::to_string(then.size()) + " effects then, " +
                    std::to_string(list.size()) + " now";
  if (list.size() > then.size()) out += "; the first new one is " + effect_text(list[then.size()]);
  return out;
}

/// Options that a stage can be built with at all; a check inside it would end the process.
bool are_possible(const StageOptions& options) {
  if (const auto* rank = std::get_if<RankOptions>(&options)) {
    return rank->block_tokens > 0 && rank->kv_blocks >= 0 && rank->slots >= 0 &&
           rank->step_tokens_max > 0 && rank->experts.layers >= 0 && rank->experts.experts >= 0;
  }
  const auto* experts = std::get_if<ExpertOptions>(&options);
  if (experts == nullptr || experts->interval_us == 0) return true;
  return experts->layers >= 0 && check_topology(experts->topology).ok();
}

template <class Slots>
std::string why_not_built(const PolicySet& set, const PolicyRegistry& registry) {
  const auto slots = Slots::make(set, registry);
  return slots.ok() ? std::string() : slots.error().message;
}

std::string why_not_built(StageKind kind, const PolicySet& set, const PolicyRegistry& registry) {
  switch (kind) {
  case StageKind::driver:
    return why_not_built<DriverSlots>(set, registry);
  case StageKind::prefill:
    return why_not_built<PrefillSlots>(set, registry);
  case StageKind::decode:
    return why_not_built<DecodeSlots>(set, registry);
  case StageKind::rank:
    return why_not_built<RankSlots>(set, registry);
  case StageKind::experts:
    break;
  }
  return why_not_built<ExpertSlots>(set, registry);
}

} // namespace

void FollowedLife::build(const StageBegan& began, const PolicyRegistry& registry) {
  registry_ = &registry;
  if (began.options.index() != static_cast<std::size_t>(life_.stage.kind) ||
      !are_possible(began.options)) {
    return stop("its options are not those of such a stage");
  }
  const std::string why = why_not_built(life_.stage.kind, began.policies, registry);
  if (!why.empty()) {
    return stop("its policy set \"" + began.policies.name + "\" cannot be built: " + why);
  }
  const PolicySet& set = began.policies;
  if (const auto* driver = std::get_if<DriverOptions>(&began.options))
    stage_ = std::make_unique<DriverStage>(*driver, set, registry);
  else if (const auto* prefill = std::get_if<PrefillOptions>(&began.options))
    stage_ = std::make_unique<PrefillStage>(*prefill, set, registry);
  else if (const auto* decode = std::get_if<DecodeOptions>(&began.options))
    stage_ = std::make_unique<DecodeStage>(*decode, set, registry);
  else if (const auto* rank = std::get_if<RankOptions>(&began.options))
    stage_ = std::make_unique<RankStage>(*rank, set, registry);
  else
    stage_ = std::make_unique<ExpertStage>(std::get<ExpertOptions>(began.options), set, registry);
}

void FollowedLife::stop(const std::string& why) {
  if (runs()) life_.stopped = why;
}

bool FollowedLife::follows(const StageTook& took) {
  if (took.number == next_event_) return true;
  stop("its events " + std::to_string(next_event_) + " to " + std::to_string(took.number - 1) +
       " are not in this ledger");
  return false;
}

void FollowedLife::take(const LedgerEntry& entry, const StageTook& took) {
  ++life_.events;
  if (!runs()) return;
  settle(doubted_ || took.number != next_event_);
  if (!runs() || !follows(took)) return;
  ++next_event_;
  doubted_ = false;
  event_number_ = took.number;
  entry_number_ = entry.number;
  at_us_ = entry.at_us;
  event_name_ = took.event ? std::string(kEventNames[took.event->index()]) : "start";
  Effects effects;
  if (!deliver_event(took, effects)) return stop("such a stage takes no " + event_name_);
  other_effects_ = other_effects(took.effects, effects);
  keep_said(effects);
}

bool FollowedLife::deliver_event(const StageTook& took, Effects& effects) {
  return std::visit(
      [&](auto& stage) {
        if constexpr (std::is_same_v<std::decay_t<decltype(stage)>, std::monostate>) {
          return false;
        } else if (took.event) {
          return deliver(*stage, *took.event, at_us_, effects);
        } else if constexpr (requires { stage->start(at_us_, effects); }) {
          stage->start(at_us_, effects);
          return true;
        } else {
          return false;
        }
      },
      stage_);
}

void FollowedLife::keep_said(Effects& effects) {
  said_.clear();
  compared_ = 0;
  for (Effect& effect : effects.list()) {
    LedgerEntry entry{entry_number_, at_us_, life_.stage, {}};
    if (auto* record = std::get_if<Record>(&effect))
      entry.what = std::move(*record);
    else if (auto* observed = std::get_if<Observed>(&effect))
      entry.what = std::move(*observed);
    else if (auto* milestone = std::get_if<Milestone>(&effect))
      entry.what = std::move(*milestone);
    else if (auto* finish = std::get_if<Finish>(&effect))
      entry.what = std::move(*finish);
    else if (auto* change = std::get_if<RankChange>(&effect))
      entry.what = std::move(*change);
    else
      continue;
    said_.push_back(std::move(entry));
  }
}

void FollowedLife::compare(const LedgerEntry& entry) {
  if (!runs()) return;
  if (event_number_ == 0) {
    at_us_ = entry.at_us;
    if (!doubted_) differs(entry.number, said_name(entry) + ": said before its first event");
    return;
  }
  const std::size_t before = compared_;
  while (doubted_ && compared_ < said_.size() && !same(entry, said_[compared_]))
    ++compared_; // What lies between was lost.
  if (doubted_ && compared_ == said_.size()) {
    compared_ = before; // It belongs to an event that was lost with what is missing.
    return;
  }
  const LedgerEntry* now = compared_ < said_.size() ? &said_[compared_] : nullptr;
  life_.cut += static_cast<std::int64_t>(compared_ - before);
  ++compared_;
  ++life_.said;
  if (now != nullptr && entry.at_us == at_us_ && same(entry, *now)) return;
  if (is_library_failure(entry, now)) {
    return stop("a call of a loaded policy gave no answer at its event " +
                std::to_string(event_number_) + ", which cannot be repeated");
  }
  if (now == nullptr) {
    return differs(entry.number, said_name(entry) + ": said then, nothing of it now");
  }
  if (entry.what.index() != now->what.index()) {
    return differs(entry.number, said_name(entry) + " then, " + said_name(*now) + " now");
  }
  const std::string what = difference_text(rows_of(entry), rows_of(*now));
  differs(entry.number, said_name(entry) + ": " + (what.empty() ? "the time of the entry" : what));
}

/// Ends the event that was taken last.
void FollowedLife::settle(bool may_be_cut) {
  if (event_number_ == 0) return;
  const std::size_t left = said_.size() - std::min(compared_, said_.size());
  if (!other_effects_.empty()) return differs(entry_number_, other_effects_);
  if (left > 0 && !may_be_cut) {
    return differs(entry_number_,
                   said_name(said_[compared_]) + ": said now, nothing of it in the ledger");
  }
  life_.cut += static_cast<std::int64_t>(left);
  ++life_.equal;
  event_number_ = 0;
  said_.clear();
}

void FollowedLife::differs(std::uint64_t number, const std::string& what) {
  life_.first = StageDifference{number, at_us_, event_number_, event_name_, what};
}

/// Whether a policy of a library was replaced by the default then, and answers now.
bool FollowedLife::is_library_failure(const LedgerEntry& then, const LedgerEntry* now) const {
  const auto* record = std::get_if<Record>(&then.what);
  if (record == nullptr || record->reason != Reason::replaced_invalid || now == nullptr)
    return false;
  const auto* again = std::get_if<Record>(&now->what);
  return again != nullptr && again->reason != Reason::replaced_invalid &&
         registry_->names(record->kind).count(again->policy) == 0;
}

StageLife FollowedLife::end() {
  if (runs()) settle(true);
  return life_;
}

} // namespace troupe::sched
