#include "schedulers/stage/preemption.hpp"

#include "schedulers/model/rank_view.hpp"
#include "schedulers/stage/step_flights.hpp"

#include <algorithm>
#include <string>
#include <tuple>

namespace troupe::sched {
namespace {

bool earlier(const Sequence& a, const Sequence& b) {
  return std::tie(a.arrival_us, a.ref) < std::tie(b.arrival_us, b.ref);
}

/// Sequences that want a token without a block for it, earliest request first.
std::vector<RequestRef> needy(const SequenceTable& table, std::int64_t block_tokens) {
  std::vector<const Sequence*> list;
  for (const Sequence* sequence : table.by_serial()) {
    if (wants_token(*sequence) && !has_next_block(*sequence, block_tokens))
      list.push_back(sequence);
  }
  std::sort(list.begin(), list.end(),
            [](const Sequence* a, const Sequence* b) { return earlier(*a, *b); });
  std::vector<RequestRef> refs;
  for (const Sequence* sequence : list)
    refs.push_back(sequence->ref);
  return refs;
}

/// The latest request that may be preempted; the one that asks is among them.
Sequence* latest(SequenceTable& table) {
  const Sequence* found = nullptr;
  for (const auto& [ref, sequence] : table.all()) {
    if (!sequence.preemptible()) continue;
    if (found == nullptr || earlier(*found, sequence)) found = &sequence;
  }
  return found == nullptr ? nullptr : table.find(found->ref);
}

Preempted give_up(SequenceTable& table, Sequence& victim, bool outgrew, RequestId beneficiary) {
  Preempted gone{victim.ref, victim.blocks.capacity(), outgrew, beneficiary};
  const bool freed = table.drop(victim);
  TROUPE_CHECK(freed, "nothing works on a sequence that is preempted");
  return gone;
}

std::string why(const Preempted& victim) {
  if (victim.outgrew) return "its answer outgrew the rank";
  if (victim.beneficiary == victim.ref.request) return "no block was left for its next token";
  return "its room went to request " + std::to_string(raw(victim.beneficiary));
}

} // namespace

bool has_next_block(const Sequence& sequence, std::int64_t block_tokens) {
  return blocks_for(sequence.planned() + 1, block_tokens) <= sequence.blocks.capacity();
}

std::int64_t blocks_on_their_way(const SequenceTable& table) {
  std::int64_t blocks = 0;
  for (const Sequence* sequence : table.by_serial())
    blocks += sequence->doomed ? sequence->blocks.capacity() : 0;
  return blocks;
}

std::int64_t blocks_missing(const SequenceTable& table, std::int64_t block_tokens) {
  return static_cast<std::int64_t>(needy(table, block_tokens).size());
}

void give_missing_blocks(SequenceTable& table, std::int64_t block_tokens) {
  for (const RequestRef& ref : needy(table, block_tokens)) {
    const bool extended = table.extend(*table.find(ref), 1);
    TROUPE_CHECK(extended, "a step is planned ahead on blocks that are free");
  }
}

std::vector<Preempted> make_room(SequenceTable& table, std::int64_t block_tokens) {
  std::vector<Preempted> gone;
  const std::vector<RequestRef> asking = needy(table, block_tokens);
  if (asking.empty()) return gone;
  std::int64_t awaited = blocks_on_their_way(table);
  for (const RequestRef& ref : asking) {
    Sequence* sequence = table.find(ref);
    if (sequence == nullptr) continue; // It gave way to an earlier one.
    if (blocks_for(sequence->positions + 1, block_tokens) > table.blocks().total()) {
      gone.push_back(give_up(table, *sequence, true, ref.request));
      continue;
    }
    if (table.extend(*sequence, 1)) continue;
    if (awaited > 0) {
      --awaited;
      continue;
    }
    Sequence* victim = latest(table);
    TROUPE_CHECK(victim != nullptr, "only who may be preempted outgrows its reservation");
    const bool itself = victim == sequence;
    gone.push_back(give_up(table, *victim, false, ref.request));
    if (itself) continue;
    const bool extended = table.extend(*sequence, 1);
    TROUPE_CHECK(extended, "a victim frees at least one block");
  }
  return gone;
}

void announce(const Preempted& victim, RankRef rank, PolicyEpoch epoch, Effects& effects) {
  Record made;
  made.kind = "preemption";
  made.policy = "latest_arrival";
  made.epoch = epoch;
  made.ref = victim.ref;
  made.rank = rank;
  made.reason = victim.outgrew ? Reason::outgrew_rank : Reason::no_room;
  made.value = victim.blocks;
  effects.add(std::move(made));
  effects.send(Peer::driver, Ended{victim.ref, ErrorCode::preempted, true, why(victim), rank});
  effects.add(Forget{victim.ref});
}

} // namespace troupe::sched
