#include "schedulers/stage/rank_reporter.hpp"

#include "schedulers/stage/rank_stage.hpp"

#include <algorithm>

namespace troupe::sched {

RankReport RankReporter::make(const RankOptions& options, const SequenceTable& table) {
  RankReport made;
  made.rank = options.rank;
  made.role = options.role;
  made.seq = ++seq_;
  made.kv_blocks_free = table.blocks().free();
  made.kv_blocks_total = table.blocks().total();
  made.kv_blocks_reserved = made.kv_blocks_total - made.kv_blocks_free;
  made.slots_free = table.slots().free();
  made.slots_reserved = table.slots().used();
  made.slots_total = table.slots().total();
  for (const Sequence* sequence : table.by_serial()) {
    if (!sequence->decodes()) continue;
    ++made.running;
    made.context_tokens += sequence->positions;
    made.tokens_to_come += sequence->new_tokens_max - sequence->answered;
  }
  for (const RequestRef& ref : advanced_) {
    const auto found = table.all().find(ref);
    if (found == table.all().end() || found->second.doomed) continue;
    const Sequence& sequence = found->second;
    made.progress.push_back({ref, std::min(sequence.positions, sequence.total), sequence.total,
                             std::min(sequence.planned(), sequence.total)});
  }
  made.last_step_tokens = last_step_tokens_;
  made.last_step_us = last_step_us_;
  made.freed = freed_;
  for (const RequestRef& ref : told_) {
    if (table.all().count(ref) == 0) made.freed.push_back(ref); // Else it is here again.
  }
  advanced_.clear();
  told_ = std::move(freed_);
  freed_.clear();
  return made;
}

} // namespace troupe::sched
