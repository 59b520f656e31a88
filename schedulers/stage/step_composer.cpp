#include "schedulers/stage/step_composer.hpp"

#include "schedulers/model/rank_view.hpp"
#include "schedulers/policy/validate.hpp"
#include "schedulers/stage/preemption.hpp"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

namespace troupe::sched {
namespace {

StepEntry entry_of(Sequence& sequence, std::int64_t tokens, std::uint64_t step,
                   std::int64_t block_tokens, SequenceTable& table) {
  const std::int64_t end = sequence.positions + tokens;
  table.grow(sequence, end, block_tokens);
  sequence.in_step = true;
  sequence.last_step = step;
  StepEntry entry{sequence.ref, sequence.slot, sequence.positions, tokens, false, {}};
  entry.draw = sequence.state == SequenceState::decoding || end == sequence.total;
  const auto& blocks = sequence.blocks.blocks();
  const auto count = static_cast<std::ptrdiff_t>(blocks_for(end, block_tokens));
  entry.blocks.assign(blocks.begin(), blocks.begin() + count);
  return entry;
}

} // namespace

std::vector<const Sequence*> decoding_sequences(const SequenceTable& table,
                                                std::int64_t block_tokens) {
  std::vector<const Sequence*> list;
  for (const auto& [ref, sequence] : table.all()) {
    if (sequence.decodes() && has_next_block(sequence, block_tokens)) list.push_back(&sequence);
  }
  std::sort(list.begin(), list.end(), [](const Sequence* a, const Sequence* b) {
    return std::tie(a->last_step, a->serial) < std::tie(b->last_step, b->serial);
  });
  return list;
}

RunStep StepComposer::compose(std::uint64_t number, const std::vector<Slice>& slices,
                              SequenceTable& table, const RankOptions& options, std::int64_t now_us,
                              Effects& effects) {
  std::vector<OfferedSlice> offered;
  for (const Slice& slice : slices)
    offered.push_back({slice.ref, slice.first, slice.count});
  std::vector<DecodeView> views;
  for (const Sequence* sequence : decoding_sequences(table, options.block_tokens)) {
    views.push_back({sequence->ref, sequence->positions});
  }
  const StepQuery query{offered, views, options.step_tokens_max};
  PolicyContext ctx;
  ctx.now_us = now_us;
  ctx.rng = &rng_;
  ctx.epoch = policy_.epoch();
  ctx.cost_model = &options.cost_model;
  ctx.block_tokens = options.block_tokens;
  const auto decision =
      policy_.decide([&](StepPolicy& policy) { return policy.compose(query, ctx); },
                     [&](const auto& given) { return validate(given, query); }, invalid_);
  RunStep step{number, {}};
  std::int64_t tokens = 0;
  const auto add = [&](const RequestRef& ref, std::int64_t count) {
    step.entries.push_back(entry_of(*table.find(ref), count, number, options.block_tokens, table));
    tokens += count;
  };
  for (const std::uint32_t i : decision.value->decodes)
    add(views[i].ref, 1);
  for (const Share& share : decision.value->slices)
    add(offered[share.candidate].ref, share.tokens);
  Record made;
  made.kind = policy_.kind();
  made.policy = policy_.name(decision.reason);
  made.epoch = policy_.epoch();
  made.rank = options.rank;
  made.reason = decision.reason;
  made.value = tokens;
  effects.add(std::move(made));
  return step;
}

} // namespace troupe::sched
