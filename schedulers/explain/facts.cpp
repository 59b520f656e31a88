#include "schedulers/explain/facts.hpp"

#include "schedulers/explain/tallies.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace troupe::sched {
namespace {

using Facts = std::vector<std::string>;

std::string number(std::int64_t value) { return std::to_string(value); }

/// The best score of a rank with room that was not chosen.
std::optional<std::size_t> runner_up(const AskedPlacement& asked, RankId chosen) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < asked.scores.size() && i < asked.ranks.size(); ++i) {
    const RankView& rank = asked.ranks[i];
    if (rank.rank.rank == chosen || !has_room(asked.query, rank)) continue;
    if (!best || asked.scores[i] < asked.scores[*best]) best = i;
  }
  return best;
}

std::string choice_text(const Record& record, const RankNames& names) {
  const AskedPlacement asked = placement_of(record);
  std::string out = policy_text(record) + " chose " + rank_text(names, record.rank.rank) + ": " +
                    std::string(reason_name(record.reason));
  for (std::size_t i = 0; i < asked.scores.size() && i < asked.ranks.size(); ++i) {
    if (asked.ranks[i].rank.rank == record.rank.rank) out += ", score " + number(asked.scores[i]);
  }
  if (const auto next = runner_up(asked, record.rank.rank)) {
    out += " against " + number(asked.scores[*next]) + " of " +
           rank_text(names, asked.ranks[*next].rank.rank);
  }
  return out;
}

/// What each rank lacked that could not be chosen.
void add_lacks(const Record& record, const RankNames& names, Facts& facts) {
  const AskedPlacement asked = placement_of(record);
  for (const RankView& rank : asked.ranks) {
    const std::string lacks = lacks_text(asked.query, rank);
    if (lacks.empty()) continue;
    facts.push_back(rank_text(names, rank.rank.rank) + " could not take it: " + lacks);
  }
}

void add_age(const Record& record, Facts& facts) {
  if (record.view_age_us == 0) return;
  facts.push_back("it went by reports up to " + duration_text(record.view_age_us) + " old");
}

void add_choice(const Record& record, const RankNames& names, Facts& facts) {
  if (record.kind == "admission") {
    facts.push_back(policy_text(record) + " let it in: " + std::string(reason_name(record.reason)));
    return;
  }
  facts.push_back(choice_text(record, names));
  add_lacks(record, names, facts);
  add_age(record, facts);
}

/// Who stood on the ranks that had no room, and ranks that a policy left alone.
void add_refusal(const Life& life, const Leg& leg, const RankNames& names, Facts& facts) {
  const Record& record = *leg.refusal;
  const std::string policy = policy_text(record);
  const std::string reason(reason_name(record.reason));
  if (record.kind == "handoff") {
    facts.push_back(policy + " let it wait: " + reason);
    return;
  }
  facts.push_back(policy + " chose no rank: " + reason);
  const AskedPlacement asked = placement_of(record);
  for (const RankView& rank : asked.ranks) {
    const std::string name = rank_text(names, rank.rank.rank);
    const std::string lacks = lacks_text(asked.query, rank);
    if (lacks.empty()) {
      facts.push_back(name +
                      " had room that the policy left alone: " + number(rank.kv_blocks_free) +
                      " free blocks of " + number(blocks_needed(asked.query, rank)) + " needed");
      continue;
    }
    facts.push_back(name + " could not take it: " + lacks);
    const std::int64_t others = standing_on(life, leg.first, rank.rank);
    if (others > 0) {
      facts.push_back(count_text(others, "other request") + (others == 1 ? " was" : " were") +
                      " on " + name + " then");
    }
  }
  if (asked.ranks.empty()) facts.emplace_back("no rank of the role was up");
  add_age(record, facts);
}

void add_order(const Life& life, const Leg& leg, std::optional<RankRef> rank,
               const RankNames& names, Facts& facts) {
  const OrderTally tally = tally_orders(life, leg, rank);
  if (tally.orders == 0) return;
  std::string out = rank ? "on " + rank_text(names, rank->rank) + " " : "";
  out += count_text(tally.ahead_first, "request") + " went before it";
  if (tally.orders > 1) {
    out += " at first and " + number(tally.ahead_last) + " at last, in " +
           count_text(tally.by.front().orders, "order");
  }
  for (const OrderTally::Orders& one : tally.by) {
    if (&one != &tally.by.front()) out += ", " + number(one.orders);
    out += " by " + policy_text(*one.first, one.epochs) + ": " +
           std::string(reason_name(one.first->reason));
  }
  facts.push_back(std::move(out));
}

void add_slices(const Life& life, const Leg& leg, const RankNames& names, Facts& facts) {
  const SliceTally tally = tally_slices(life, leg);
  for (const SliceTally::Packed& packed : tally.own) {
    facts.push_back(policy_text(*packed.first, packed.epochs) + " packed " +
                    count_text(packed.slices, "slice") + " of it with " +
                    count_text(packed.tokens, "token"));
  }
  const std::string rank = rank_text(names, leg.rank.rank);
  if (tally.packs == 0) facts.push_back(rank + " asked for no slices meanwhile");
  if (tally.others.slices == 0) return;
  facts.push_back(count_text(tally.others.slices, "slice") + " of " +
                  count_text(tally.other_requests, "other request") + " with " +
                  count_text(tally.others.tokens, "token") +
                  (tally.others.slices == 1 ? " was" : " were") + " packed for " + rank);
}

/// Whether others were placed while it waited.
void add_others(const Life& life, const Leg& leg, std::string_view kind, Facts& facts) {
  const OthersTally tally = tally_others(life, leg, kind);
  if (tally.placed + tally.left == 0) return;
  facts.push_back(std::string(kind) + " found a rank for " + number(tally.placed) +
                  " others meanwhile, and none for " + number(tally.left));
}

void add_steps(const Life& life, const Leg& leg, const RankNames& names, Facts& facts) {
  const StepTally tally = tally_steps(life, leg);
  std::string out = rank_text(names, leg.rank.rank) + " began " + count_text(tally.steps, "step") +
                    ", " + number(tally.with_it) + " with it";
  if (tally.with_it > 0) out += " (" + count_text(tally.own_tokens, "token") + " of it)";
  facts.push_back(std::move(out));
  if (tally.beside_max > 0) {
    facts.push_back("up to " + count_text(tally.beside_max, "other sequence") +
                    " decoded in a step with it");
  }
}

/// How long it was on its way to the queue, and how long nothing was decided about it there.
void add_silence(const Life& life, const Leg& leg, Facts& facts) {
  std::int64_t since_us = leg.said_by == StageKind::driver ? leg.to_us : leg.from_us;
  for (std::size_t i = leg.first; i < leg.last; ++i) {
    const auto* seen = std::get_if<Observed>(&life.entries[i].what);
    if (seen == nullptr || seen->observation.request.ref != leg.ref) continue;
    if (seen->observation.event != QueueEvent::entered) continue;
    since_us = life.entries[i].at_us;
    break;
  }
  if (since_us > leg.from_us) {
    facts.push_back("it was on its way to the queue for " + duration_text(since_us - leg.from_us));
  }
  if (tally_orders(life, leg, std::nullopt).orders > 0 || since_us == leg.to_us) return;
  facts.push_back("nothing was decided about it for " + duration_text(leg.to_us - since_us) +
                  ": the chunker decides while a prefill rank has a free slot and a free block");
}

/// Sets that went live, and the end of the rank it was on.
void add_changes(const Life& life, const Leg& leg, const RankNames& names, std::int64_t arrival_us,
                 Facts& facts) {
  for (std::size_t i = leg.first; i < leg.last; ++i) {
    const LedgerEntry& entry = life.entries[i];
    const std::string when = duration_text(entry.at_us - arrival_us) + " after its arrival";
    if (const auto* live = std::get_if<SetLive>(&entry.what)) {
      facts.push_back("policy set \"" + live->set.name + "\" (epoch " +
                      std::to_string(raw(live->set.epoch)) + ") went live " + when + ": " +
                      std::string(swap_cause_name(live->how)) +
                      (live->reason.empty() ? "" : ", " + live->reason));
    }
    const auto* change = std::get_if<RankChange>(&entry.what);
    if (change == nullptr || change->up || change->rank != leg.rank) continue;
    facts.push_back(rank_text(names, leg.rank.rank) + " was gone " + when);
  }
}

} // namespace

std::string what_text(const Leg& leg, const RankNames& names) {
  const std::string rank = rank_text(names, leg.rank.rank);
  const std::string again = leg.ref.attempt > Attempt{1} ? " again" : "";
  const bool held_back = leg.refusal != nullptr && leg.refusal->reason == Reason::held_back;
  switch (leg.phase) {
  case Phase::waits_for_rank:
    if (held_back) return "held back by the prefill router" + again;
    return (leg.refusal == nullptr ? "waiting in the queue"
                                   : "waiting for room on a prefill rank") +
           again;
  case Phase::waits_for_answer:
    return "waiting for the word of " + rank + again;
  case Phase::waits_for_step:
    return "waiting for its first step on " + rank + again;
  case Phase::prefilling:
    return "prefilling on " + rank + again;
  case Phase::waits_for_room:
    if (leg.refusal == nullptr) return "waiting for its turn to move" + again;
    return (leg.refusal->kind == "handoff" ? "held back by the handoff policy"
            : held_back                    ? "held back by the decode balancer"
                                           : "waiting for room on a decode rank") +
           again;
  case Phase::handing_off:
    return "moving to " + rank + again;
  case Phase::decoding:
    return "decoding on " + rank + again;
  case Phase::ended:
    break;
  }
  return "ended";
}

std::vector<std::string> opening_facts(const Life& life, const Leg& leg, const RankNames& names) {
  Facts facts;
  if (leg.refusal != nullptr) {
    add_refusal(life, leg, names, facts);
    return facts;
  }
  const bool by_driver = leg.said_by == StageKind::driver;
  if (by_driver && leg.ref.attempt > Attempt{1}) {
    facts.push_back("try " + std::to_string(raw(leg.ref.attempt) - 1) + " ended: " + leg.detail);
  } else if (leg.phase == Phase::waits_for_rank && !leg.detail.empty()) {
    facts.push_back("it came back from " + rank_text(names, leg.rank.rank) + ": " + leg.detail);
  } else if (!leg.detail.empty()) {
    facts.push_back("the move before failed: " + leg.detail);
  }
  if (leg.choice != nullptr) add_choice(*leg.choice, names, facts);
  return facts;
}

std::vector<std::string> meanwhile_facts(const Life& life, const Leg& leg, const RankNames& names,
                                         std::int64_t arrival_us) {
  Facts facts;
  switch (leg.phase) {
  case Phase::waits_for_rank:
    add_order(life, leg, std::nullopt, names, facts);
    if (leg.refusal == nullptr) add_silence(life, leg, facts);
    add_others(life, leg, "prefill_router", facts);
    break;
  case Phase::waits_for_step:
    add_order(life, leg, leg.rank, names, facts);
    add_slices(life, leg, names, facts);
    add_steps(life, leg, names, facts);
    break;
  case Phase::prefilling:
    add_slices(life, leg, names, facts);
    add_steps(life, leg, names, facts);
    break;
  case Phase::waits_for_room:
    if (leg.refusal == nullptr) {
      const std::int64_t before = finished_before(life, leg.first, arrival_us);
      facts.push_back(count_text(before, "finished prefill") +
                      " of requests that arrived no later waited for a decode rank too");
      facts.push_back("nothing was decided about it for " + duration_text(leg.to_us - leg.from_us) +
                      ": the balancer decides while a decode rank has a free slot");
    }
    add_others(life, leg, "decode_balancer", facts);
    break;
  case Phase::decoding:
    add_steps(life, leg, names, facts);
    break;
  case Phase::waits_for_answer:
  case Phase::handing_off:
  case Phase::ended:
    break;
  }
  add_changes(life, leg, names, arrival_us, facts);
  return facts;
}

} // namespace troupe::sched
