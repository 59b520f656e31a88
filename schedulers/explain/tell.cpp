#include "schedulers/explain/tell.hpp"

#include "schedulers/explain/facts.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe::sched {
namespace {

constexpr const char* kNoRecord = "the ledger has no record of why";

std::string chosen_text(const Record& record, const RankNames& names) {
  if (record.kind == "admission") return record.value != 0 ? "admit" : "reject";
  if (record.kind == "handoff") return record.value != 0 ? "start" : "wait";
  return record.rank == RankRef{} ? "none" : rank_text(names, record.rank.rank);
}

std::vector<StoryCandidate> candidates_of(const Record& record, const RankNames& names) {
  const AskedPlacement asked = placement_of(record);
  std::vector<StoryCandidate> list;
  for (std::size_t i = 0; i < asked.ranks.size(); ++i) {
    const RankView& rank = asked.ranks[i];
    StoryCandidate candidate{rank.rank, rank_text(names, rank.rank.rank), std::nullopt, false,
                             lacks_text(asked.query, rank)};
    candidate.feasible = candidate.lacks.empty();
    if (i < asked.scores.size()) candidate.score = asked.scores[i];
    list.push_back(std::move(candidate));
  }
  return list;
}

StoryDecision decision_of(const Record& record, std::int64_t at_us, const RankNames& names) {
  StoryDecision made;
  made.at_us = at_us;
  made.kind = record.kind;
  made.policy = record.policy;
  made.epoch = record.epoch;
  made.attempt = record.ref.attempt;
  made.chosen = chosen_text(record, names);
  made.reason = record.reason;
  made.view_age_us = record.view_age_us;
  made.canary = is_canary(record);
  made.candidates = candidates_of(record, names);
  return made;
}

/// Appends `span`, with a span for what the ledger does not have before it.
void add_span(Story& story, StorySpan span) {
  const std::int64_t told_us = story.spans.empty() ? 0 : story.spans.back().to_us;
  if (span.from_us > told_us) {
    story.spans.push_back(
        {told_us, span.from_us, "not in the ledger", {"its entries are gone or were lost"}});
  }
  span.from_us = std::max(span.from_us, told_us);
  if (span.to_us > span.from_us) story.spans.push_back(std::move(span));
}

void add_spans(Story& story, const Life& life, const std::vector<Leg>& legs,
               const RankNames& names) {
  std::vector<std::string> opening; // Of legs that took no time.
  for (const Leg& leg : legs) {
    std::vector<std::string> facts = opening_facts(life, leg, names);
    std::move(facts.begin(), facts.end(), std::back_inserter(opening));
    if (leg.to_us <= leg.from_us) continue;
    StorySpan span{leg.from_us - story.arrival_us, leg.to_us - story.arrival_us,
                   what_text(leg, names)};
    span.facts = std::exchange(opening, {});
    facts = meanwhile_facts(life, leg, names, story.arrival_us);
    std::move(facts.begin(), facts.end(), std::back_inserter(span.facts));
    if (span.facts.empty()) span.facts.emplace_back(kNoRecord);
    span.phase = leg.phase;
    span.attempt = leg.ref.attempt;
    span.rank = leg.phase == Phase::waits_for_rank ? RankRef{} : leg.rank;
    add_span(story, std::move(span));
  }
  const std::int64_t told_us = story.spans.empty() ? 0 : story.spans.back().to_us;
  if (told_us < story.latency_us) {
    add_span(story, {story.latency_us, story.latency_us, {}, {}});
  }
}

/// When it arrived, as far as the ledger reaches.
std::int64_t arrival_of(const Life& life, const std::vector<Leg>& legs) {
  if (life.finish) return life.finish->arrival_us;
  if (!legs.empty()) return legs.front().from_us;
  return life.last_us;
}

} // namespace

std::string StorySpan::why() const { return join(facts, "; "); }

std::int64_t Story::preemptions() const noexcept {
  return ended ? std::max<std::int64_t>(0, tries - finish.attempts) : 0;
}

Story tell(const Life& life, const RankNames& names) {
  const std::vector<Leg> legs = legs_of(life);
  Story story;
  story.request = life.request;
  story.custom_id = life.custom_id;
  story.missing = life.missing;
  story.arrival_us = arrival_of(life, legs);
  story.ended = life.finish.has_value();
  story.runs = life.runs && !story.ended;
  if (story.ended) story.finish = *life.finish;
  story.latency_us = (story.ended ? life.finish->end_us : life.last_us) - story.arrival_us;
  if (!legs.empty()) story.tries = static_cast<std::int64_t>(raw(legs.back().ref.attempt));
  add_spans(story, life, legs, names);
  for (const LedgerEntry& entry : life.entries) {
    const auto* record = std::get_if<Record>(&entry.what);
    if (record == nullptr || record->ref.request != life.request || record->kind == "queue") {
      continue;
    }
    story.decisions.push_back(decision_of(*record, entry.at_us - story.arrival_us, names));
  }
  return story;
}

} // namespace troupe::sched
