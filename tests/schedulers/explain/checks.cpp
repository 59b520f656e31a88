#include "tests/schedulers/explain/checks.hpp"

#include "tests/schedulers/explain/checker.hpp"

#include <iterator>
#include <utility>

namespace troupe::sched::testing {
namespace {

const std::vector<Checker>& checkers() {
  static const std::vector<Checker> all = [] {
    std::vector<Checker> made = decision_checkers();
    std::vector<Checker> more = course_checkers();
    made.insert(made.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
    return made;
  }();
  return all;
}

} // namespace

Witness::Witness(const std::vector<LedgerEntry>& entries, std::map<RankId, std::string> ranks)
    : entries_(&entries), names_(std::move(ranks)) {}

std::vector<std::string> Witness::kinds() {
  std::vector<std::string> names;
  for (const Checker& checker : checkers())
    names.push_back(checker.name);
  return names;
}

Verdict Witness::check(const Story& story, const StorySpan& span, const std::string& fact) const {
  for (const Checker& checker : checkers()) {
    std::smatch m;
    if (!std::regex_match(fact, m, checker.form)) continue;
    return {checker.name, checker.check(*this, stretch_of(story, span), m)};
  }
  return {"", "no checker knows such a statement"};
}

Witness::Stretch Witness::stretch_of(const Story& story, const StorySpan& span) const {
  Stretch out;
  out.arrival_us = story.arrival_us;
  out.from_us = story.arrival_us + span.from_us;
  out.to_us = story.arrival_us + span.to_us;
  Attempt attempt{};
  Phase phase = Phase::ended;
  std::size_t moving = 0;
  const auto opens = [&](std::size_t i) {
    if ((*entries_)[i].at_us <= out.from_us) {
      out.first = i + 1;
    } else if (out.last == 0) {
      out.last = i;
    }
  };
  for (std::size_t i = 0; i < entries_->size(); ++i) {
    const LedgerEntry& entry = (*entries_)[i];
    if (const auto* record = std::get_if<Record>(&entry.what)) {
      if (record->ref.request != story.request || record->kind == "queue") continue;
      if (entry.at_us == out.from_us) out.decisions.push_back(record);
      const bool awaited = phase == Phase::waits_for_rank ? record->kind == "prefill_router"
                           : phase == Phase::waits_for_room
                               ? record->kind == "decode_balancer" || record->kind == "handoff"
                               : false;
      if (awaited && record->value == 0 && record->ref.attempt == attempt) opens(i);
      continue;
    }
    const auto* milestone = std::get_if<Milestone>(&entry.what);
    if (milestone == nullptr || milestone->ref.request != story.request) continue;
    if (milestone->ref.attempt < attempt) continue;
    opens(i);
    if (entry.at_us <= out.from_us) {
      const bool moves = phase == Phase::handing_off && milestone->phase == Phase::decoding;
      out.moved = moves ? moving : i + 1;
    }
    attempt = milestone->ref.attempt;
    phase = milestone->phase;
    if (phase == Phase::handing_off) moving = i + 1;
    if (entry.at_us == out.from_us) out.openers.push_back(milestone);
    if (entry.at_us <= out.from_us) {
      out.ref = milestone->ref;
      out.rank = milestone->rank;
      out.by_driver = entry.stage.kind == StageKind::driver;
    }
    if (phase == Phase::ended) break;
  }
  return out;
}

std::string Witness::check_decisions(const Story& story) const {
  std::size_t next = 0;
  for (const LedgerEntry& entry : *entries_) {
    const auto* record = std::get_if<Record>(&entry.what);
    if (record == nullptr || record->ref.request != story.request || record->kind == "queue") {
      continue;
    }
    if (entry.at_us > story.arrival_us + story.latency_us) break;
    if (next == story.decisions.size()) return "a decision is missing";
    const StoryDecision& told = story.decisions[next++];
    if (told.kind != record->kind || told.policy != record->policy || told.epoch != record->epoch ||
        told.reason != record->reason || told.at_us != entry.at_us - story.arrival_us ||
        told.attempt != record->ref.attempt) {
      return "decision " + std::to_string(next) + " is another";
    }
    if (told.candidates.size() != record->candidates.size()) return "other candidates";
    for (std::size_t i = 0; i < told.candidates.size(); ++i) {
      const Candidate& candidate = record->candidates[i];
      if (told.candidates[i].rank.rank != candidate.rank ||
          told.candidates[i].name != rank_name(candidate.rank) ||
          told.candidates[i].feasible != candidate.feasible ||
          told.candidates[i].score.value_or(0) != candidate.score) {
        return "candidate " + std::to_string(i) + " of decision " + std::to_string(next) +
               " is another";
      }
    }
  }
  return next == story.decisions.size() ? "" : "there are too many decisions";
}

} // namespace troupe::sched::testing
