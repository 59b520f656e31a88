#include "schedulers/explain/tallies.hpp"

#include "schedulers/explain/words.hpp"

#include <algorithm>
#include <set>

namespace troupe::sched {
namespace {

/// Calls `take(record)` for each decision of one kind in a leg.
template <class Take>
void each_record(const Life& life, const Leg& leg, std::string_view kind, const Take& take) {
  for (std::size_t i = leg.first; i < leg.last; ++i) {
    const auto* record = std::get_if<Record>(&life.entries[i].what);
    if (record != nullptr && record->kind == kind) take(*record);
  }
}

/// The share of `record`'s policy in `shares`, with its epoch; a new one at the end when it has
/// none.
template <class Share>
Share& share_of(const Record& record, bool by_reason, std::vector<Share>& shares) {
  const auto found = std::find_if(shares.begin(), shares.end(), [&](const Share& share) {
    return same_words(*share.first, record) && (!by_reason || share.first->reason == record.reason);
  });
  Share& share = found == shares.end() ? shares.emplace_back() : *found;
  if (share.first == nullptr) share.first = &record;
  share.epochs.insert(record.epoch);
  return share;
}

/// How many stand before `ref` in an order; none when it is not in it.
std::optional<std::int64_t> ahead_of(const AskedOf<QueueQuestion>& asked, const RequestRef& ref) {
  if (!asked.answer.value) return std::nullopt;
  std::int64_t ahead = 0;
  for (const std::uint32_t place : asked.answer.value->positions) {
    if (asked.question.waiting[place].ref == ref) return ahead;
    ++ahead;
  }
  return std::nullopt;
}

Population population_at(const Life& life, std::size_t place) {
  Population population = life.others;
  for (std::size_t i = 0; i < place; ++i)
    apply(population, life.entries[i]);
  population.erase(life.request);
  return population;
}

} // namespace

OrderTally tally_orders(const Life& life, const Leg& leg, std::optional<RankRef> rank) {
  OrderTally tally;
  each_record(life, leg, "queue", [&](const Record& record) {
    const auto* asked = asked_of<QueueQuestion>(record);
    if (asked == nullptr || record.rank != rank.value_or(RankRef{})) return;
    const auto ahead = ahead_of(*asked, leg.ref);
    if (!ahead) return;
    if (tally.orders++ == 0) tally.ahead_first = *ahead;
    tally.ahead_last = *ahead;
    ++share_of(record, true, tally.by).orders;
  });
  return tally;
}

SliceTally tally_slices(const Life& life, const Leg& leg) {
  SliceTally tally;
  std::set<RequestId> others;
  each_record(life, leg, "prefill_chunker", [&](const Record& record) {
    const auto* asked = asked_of<ChunkerQuestion>(record);
    if (asked == nullptr || record.rank != leg.rank) return;
    ++tally.packs;
    if (!asked->answer.value) return;
    for (const Share& share : asked->answer.value->shares) {
      const RequestRef& ref = asked->question.requests[share.candidate].ref;
      const bool own = ref == leg.ref;
      SliceTally::Packed& packed = own ? share_of(record, false, tally.own) : tally.others;
      ++packed.slices;
      packed.tokens += share.tokens;
      if (!own) others.insert(ref.request);
    }
  });
  tally.other_requests = static_cast<std::int64_t>(others.size());
  return tally;
}

OthersTally tally_others(const Life& life, const Leg& leg, std::string_view kind) {
  OthersTally tally;
  each_record(life, leg, kind, [&](const Record& record) {
    if (record.ref.request == leg.ref.request) return;
    ++(record.value != 0 ? tally.placed : tally.left);
  });
  return tally;
}

StepTally tally_steps(const Life& life, const Leg& leg) {
  StepTally tally;
  for (std::size_t i = leg.since; i < leg.last; ++i) {
    const auto* record = std::get_if<Record>(&life.entries[i].what);
    if (record == nullptr || record->rank != leg.rank) continue;
    const auto* asked = asked_of<StepQuestion>(*record);
    if (asked == nullptr || !asked->answer.value) continue;
    const StepDecision& step = *asked->answer.value;
    const auto& decodes = asked->question.decodes;
    const bool decoded = std::any_of(step.decodes.begin(), step.decodes.end(),
                                     [&](std::uint32_t n) { return decodes[n].ref == leg.ref; });
    std::int64_t tokens = decoded ? 1 : 0;
    for (const Share& share : step.slices) {
      if (asked->question.slices[share.candidate].ref == leg.ref) tokens += share.tokens;
    }
    if (i < leg.first && tokens == 0 && tally.with_it == 0) continue;
    ++tally.steps;
    if (tokens == 0) continue;
    ++tally.with_it;
    tally.own_tokens += tokens;
    const std::int64_t beside = static_cast<std::int64_t>(step.decodes.size()) - (decoded ? 1 : 0);
    tally.beside_max = std::max(tally.beside_max, beside);
  }
  return tally;
}

std::int64_t standing_on(const Life& life, std::size_t place, RankRef rank) {
  const Population population = population_at(life, place);
  return std::count_if(population.begin(), population.end(),
                       [&](const auto& item) { return item.second.rank == rank; });
}

std::int64_t finished_before(const Life& life, std::size_t place, std::int64_t arrival_us) {
  const Population population = population_at(life, place);
  return std::count_if(population.begin(), population.end(), [&](const auto& item) {
    return item.second.phase == Phase::waits_for_room && item.second.arrival_us <= arrival_us;
  });
}

} // namespace troupe::sched
