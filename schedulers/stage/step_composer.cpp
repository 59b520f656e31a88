#include "schedulers/stage/step_composer.hpp"

#include "schedulers/model/rank_view.hpp"
#include "schedulers/stage/preemption.hpp"
#include "schedulers/stage/step_flights.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

namespace troupe::sched {
namespace {

/// The entry of `sequence` in `step`; its block table goes there too.
StepEntry entry_of(Sequence& sequence, std::int64_t tokens, RunStep& step,
                   std::int64_t block_tokens, SequenceTable& table) {
  const std::int64_t end = sequence.planned() + tokens;
  table.grow(sequence, end, block_tokens);
  StepEntry entry{sequence.ref, sequence.slot, sequence.planned(), tokens};
  entry.draw = sequence.state == SequenceState::decoding || end == sequence.total;
  entry.follows = sequence.in_flight > 0;
  const auto& blocks = sequence.blocks.blocks();
  entry.blocks_first = static_cast<std::int64_t>(step.blocks.size());
  entry.blocks = blocks_for(end, block_tokens);
  step.blocks.insert(step.blocks.end(), blocks.begin(), blocks.begin() + entry.blocks);
  join_step(sequence, entry, step.step);
  return entry;
}

} // namespace

std::vector<Slice> true_slices(const RunChunks& answer, SequenceTable& table,
                               RankReporter& reporter) {
  std::vector<Slice> valid;
  std::set<RequestRef> seen;
  for (const Slice& slice : answer.slices) {
    const Sequence* sequence = table.find(slice.ref);
    if (sequence == nullptr) reporter.freed(slice.ref); // The report of that was lost.
    if (sequence == nullptr) continue;
    reporter.advanced(slice.ref);
    if (sequence->state != SequenceState::prefilling) continue;
    const bool fits = slice.first == sequence->planned() && slice.count >= 1 &&
                      slice.count <= sequence->total - sequence->planned();
    if (fits && seen.insert(slice.ref).second) valid.push_back(slice);
  }
  return valid;
}

std::vector<const Sequence*> decoding_sequences(const SequenceTable& table,
                                                std::int64_t block_tokens) {
  std::vector<const Sequence*> list;
  list.reserve(table.by_serial().size());
  for (const Sequence* sequence : table.by_serial()) {
    if (wants_token(*sequence) && has_next_block(*sequence, block_tokens)) list.push_back(sequence);
  }
  // All of them in the step before: the usual case.
  const auto earlier = [](const Sequence* a, const Sequence* b) {
    return a->last_step < b->last_step;
  };
  if (!std::is_sorted(list.begin(), list.end(), earlier)) {
    std::stable_sort(list.begin(), list.end(), earlier);
  }
  return list;
}

bool any_decodes(const SequenceTable& table, std::int64_t block_tokens) {
  const auto& all = table.by_serial();
  return std::any_of(all.begin(), all.end(), [&](const Sequence* one) {
    return wants_token(*one) && has_next_block(*one, block_tokens);
  });
}

const StepRow* row_of(const StepDone& event, std::size_t i, const RequestRef& ref) {
  if (i < event.rows.size() && event.rows[i].ref == ref) return &event.rows[i];
  const auto found = std::find_if(event.rows.rbegin(), event.rows.rend(),
                                  [&](const StepRow& row) { return row.ref == ref; });
  return found == event.rows.rend() ? nullptr : &*found;
}

QuestionContext StepComposer::context(const RankOptions& options, std::int64_t now_us) {
  QuestionContext made;
  made.now_us = now_us;
  made.seed = rng_.bits();
  made.cost_model = options.cost_model;
  made.block_tokens = options.block_tokens;
  return made;
}

bool StepComposer::plans_ahead(const OverlapView& view, const RankOptions& options,
                               std::int64_t now_us, Effects& effects) {
  const auto answered =
      slots_.decide(OverlapQuestion{context(options, now_us), view}, invalid_, effects);
  const bool now = answered.decision().value->plan_now;
  Record made = slots_->of<OverlapQuestion>().record(answered);
  made.rank = options.rank;
  made.value = now ? 1 : 0;
  effects.add(std::move(made));
  return now;
}

RunStep StepComposer::compose(std::uint64_t number, const std::vector<Slice>& slices,
                              SequenceTable& table, const RankOptions& options, std::int64_t now_us,
                              Effects& effects) {
  StepQuestion question;
  question.context = context(options, now_us);
  question.step_tokens_max = options.step_tokens_max;
  for (const Slice& slice : slices)
    question.slices.push_back({slice.ref, slice.first, slice.count});
  const std::vector<const Sequence*> decoding = decoding_sequences(table, options.block_tokens);
  question.decodes.reserve(decoding.size());
  for (const Sequence* sequence : decoding)
    question.decodes.push_back({sequence->ref, sequence->planned()});
  const auto answered = slots_.decide(std::move(question), invalid_, effects);
  const StepDecision& decision = *answered.decision().value;
  RunStep step{number, {}};
  step.entries.reserve(decision.decodes.size() + decision.slices.size());
  step.blocks.reserve(static_cast<std::size_t>(table.blocks().used()) + step.entries.capacity());
  const auto add = [&](const RequestRef& ref, std::int64_t count) {
    step.entries.push_back(entry_of(*table.find(ref), count, step, options.block_tokens, table));
  };
  for (const std::uint32_t i : decision.decodes)
    add(answered.question().decodes[i].ref, 1);
  for (const Share& share : decision.slices)
    add(answered.question().slices[share.candidate].ref, share.tokens);
  Record made = slots_->of<StepQuestion>().record(answered);
  made.rank = options.rank;
  made.value = step.tokens();
  effects.add(std::move(made));
  return step;
}

} // namespace troupe::sched
