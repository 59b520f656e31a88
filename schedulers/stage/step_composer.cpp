#include "schedulers/stage/step_composer.hpp"

#include "schedulers/model/rank_view.hpp"
#include "schedulers/stage/preemption.hpp"
#include "schedulers/stage/step_flights.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <tuple>
#include <utility>

namespace troupe::sched {
namespace {

StepEntry entry_of(Sequence& sequence, std::int64_t tokens, std::uint64_t step,
                   std::int64_t block_tokens, SequenceTable& table) {
  const std::int64_t end = sequence.planned() + tokens;
  table.grow(sequence, end, block_tokens);
  StepEntry entry{sequence.ref, sequence.slot, sequence.planned(), tokens, false, {}};
  entry.draw = sequence.state == SequenceState::decoding || end == sequence.total;
  entry.follows = sequence.in_flight > 0;
  const auto& blocks = sequence.blocks.blocks();
  const auto count = static_cast<std::ptrdiff_t>(blocks_for(end, block_tokens));
  entry.blocks.assign(blocks.begin(), blocks.begin() + count);
  join_step(sequence, entry, step);
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
  for (const auto& [ref, sequence] : table.all()) {
    if (wants_token(sequence) && has_next_block(sequence, block_tokens)) list.push_back(&sequence);
  }
  std::sort(list.begin(), list.end(), [](const Sequence* a, const Sequence* b) {
    return std::tie(a->last_step, a->serial) < std::tie(b->last_step, b->serial);
  });
  return list;
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
  for (const Sequence* sequence : decoding_sequences(table, options.block_tokens)) {
    question.decodes.push_back({sequence->ref, sequence->planned()});
  }
  const auto answered = slots_.decide(std::move(question), invalid_, effects);
  const StepDecision& decision = *answered.decision().value;
  RunStep step{number, {}};
  std::int64_t tokens = 0;
  const auto add = [&](const RequestRef& ref, std::int64_t count) {
    step.entries.push_back(entry_of(*table.find(ref), count, number, options.block_tokens, table));
    tokens += count;
  };
  for (const std::uint32_t i : decision.decodes)
    add(answered.question().decodes[i].ref, 1);
  for (const Share& share : decision.slices)
    add(answered.question().slices[share.candidate].ref, share.tokens);
  Record made = slots_->of<StepQuestion>().record(answered);
  made.rank = options.rank;
  made.value = tokens;
  effects.add(std::move(made));
  return step;
}

} // namespace troupe::sched
