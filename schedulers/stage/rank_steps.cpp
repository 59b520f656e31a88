#include "schedulers/stage/rank_steps.hpp"

#include "schedulers/core/check.hpp"
#include "schedulers/stage/views.hpp"

#include <algorithm>
#include <utility>

namespace troupe::sched {

RankSteps::RankSteps(const RankOptions& given, const PolicySet& set, const PolicyRegistry& registry)
    : options(given), composer(given, set, registry), table(given.kv_blocks, given.slots),
      experts(given.rank, given.experts) {
  TROUPE_CHECK(given.block_tokens >= 1 && given.step_tokens_max >= 1,
               "a rank has blocks and steps of at least one token");
  recount();
}

// -- what it tells -------------------------------------------------------------------------------

void RankSteps::recount() {
  counts.kv_blocks_free = table.blocks().free();
  counts.kv_blocks_reserved = table.blocks().total() - table.blocks().free();
  counts.slots_free = table.slots().free();
  counts.slots_reserved = table.slots().used();
}

void RankSteps::report(std::int64_t now_us, Effects& effects) {
  recount();
  RankReport made = reporter.make(options, table);
  made.step_next = may_plan() ? step_next : flights.oldest().step;
  made.wants_chunks = pulls();
  if (made.wants_chunks && pull_timer_step != step_next) {
    pull_timer_step = step_next;
    effects.timer(TimerKind::pull_again, step_next, now_us + options.pull_again_us);
  }
  if (reporter.should_repeat() && !repeat_timer) {
    repeat_timer = true;
    effects.timer(TimerKind::pull_again, kRepeatKey, now_us + options.pull_again_us);
  }
  if (prefills(options.role)) effects.send(Peer::chunker, made);
  if (decodes(options.role)) effects.send(Peer::balancer, std::move(made));
}

void RankSteps::report_freed(std::int64_t now_us, Effects& effects) {
  if (reporter.has_news() && !step_runs()) {
    report(now_us, effects);
    start_step(now_us, effects);
  }
  recount();
}

void RankSteps::lease(Sequence& sequence, std::int64_t lease_us, std::int64_t now_us,
                      Effects& effects) {
  sequence.renew(now_us + lease_us);
  watch_lease(sequence, effects);
}

void RankSteps::watch_lease(Sequence& sequence, Effects& effects) {
  const std::int64_t due_us = sequence.lease_until_us;
  if (sequence.lease_timer_us != 0 && sequence.lease_timer_us <= due_us) return;
  sequence.lease_timer_us = due_us;
  effects.timer(TimerKind::lease, sequence.serial, due_us);
}

void RankSteps::drop(Sequence& sequence, Effects& effects) {
  const RequestRef ref = sequence.ref;
  if (!table.drop(sequence)) return;
  reporter.freed(ref);
  effects.add(Forget{ref});
}

void RankSteps::settle(Sequence& sequence, Effects& effects) {
  const RequestRef ref = sequence.ref;
  if (!table.settle(sequence)) return;
  reporter.freed(ref);
  effects.add(Forget{ref});
}

void RankSteps::fail(Sequence& sequence, ErrorCode code, bool retryable, std::string detail,
                     Effects& effects) {
  effects.send(Peer::driver, Ended{sequence.ref, code, retryable, std::move(detail), options.rank});
  drop(sequence, effects);
}

// -- composing a step ----------------------------------------------------------------------------

void RankSteps::preempt(const Preempted& victim, Effects& effects) {
  ++counts.preempted;
  announce(victim, options.rank, composer.epoch(), effects);
  reporter.freed(victim.ref);
}

/// Slices of the answer that are still true here.
std::vector<Slice> RankSteps::offered() {
  return answer ? true_slices(*answer, table, reporter) : std::vector<Slice>{};
}

void RankSteps::start_step(std::int64_t now_us, Effects& effects) {
  if (step_runs()) return plan_ahead(now_us, effects);
  if (prefills(options.role) && !answer) return;
  for (const Preempted& victim : make_room(table, options.block_tokens))
    preempt(victim, effects);
  recount();
  const std::vector<Slice> slices = offered();
  if (slices.empty() && !any_decodes(table, options.block_tokens)) {
    if (table.decoding() > 0) return;
    if (answer) ++step_next;
    if (answer || reporter.has_news()) {
      answer.reset();
      report(now_us, effects);
    }
    return;
  }
  launch(slices, now_us, effects);
  plan_ahead(now_us, effects);
}

void RankSteps::launch(const std::vector<Slice>& slices, std::int64_t now_us, Effects& effects) {
  answer.reset();
  RunStep step = composer.compose(step_next++, slices, table, options, now_us, effects);
  step.expert_epoch = experts.epoch();
  step.count_experts = experts.counts();
  counts.invalid_decisions = composer.invalid_decisions();
  ++counts.steps;
  flights.launch(step);
  effects.add(std::move(step));
}

/// Asks the overlap policy about the step to come, once: a no holds until the running one has
/// ended.
void RankSteps::ask_ahead(std::int64_t now_us, Effects& effects) {
  if (flights.held() != 1 || asked_ahead == step_next) return;
  const OverlapView view = view_ahead(flights, table, options, host_us);
  if (view.sequences == 0) return;
  asked_ahead = step_next;
  if (composer.plans_ahead(view, options, now_us, effects)) allowed_ahead = step_next;
  counts.invalid_decisions = composer.invalid_decisions();
}

/// Plans the next step while one runs, as if every sequence of that got its token and went on.
/// Where chunks are pulled, that happens first. Nobody is preempted for such a step: it waits for
/// blocks that are not free.
void RankSteps::plan_ahead(std::int64_t now_us, Effects& effects) {
  ask_ahead(now_us, effects);
  if (!may_plan()) return;
  if (prefills(options.role) && !answer) {
    if (pull_timer_step != step_next) report(now_us, effects);
    return;
  }
  if (blocks_missing(table, options.block_tokens) > table.blocks().free()) return;
  give_missing_blocks(table, options.block_tokens);
  const std::vector<Slice> slices = offered();
  if (!slices.empty() || any_decodes(table, options.block_tokens)) {
    launch(slices, now_us, effects);
    ++counts.steps_ahead;
  }
  recount();
}

// -- the end of a step ---------------------------------------------------------------------------

bool RankSteps::end_step(const StepDone& event, std::int64_t now_us, Effects& effects) {
  const std::optional<StepFlight> flight = flights.retire(event.step);
  if (!flight) return false;
  Tokens tokens{options.rank, event.step, {}};
  tokens.rows.reserve(flight->entries.size());
  for (std::size_t i = 0; i < flight->entries.size(); ++i) {
    const StepEntry& entry = flight->entries[i];
    end_entry(event, entry, row_of(event, i, entry.ref), tokens, now_us, effects);
  }
  if (!tokens.rows.empty()) effects.send(Peer::driver, std::move(tokens));
  if (event.code == ErrorCode::ok) {
    experts.count(event.step, event.expert_epoch, event.expert_counts, now_us, effects);
  }
  counts.tokens += flight->tokens;
  counts.busy_us += event.compute_us;
  host_us = event.idle_us;
  reporter.stepped(flight->tokens, event.compute_us);
  ask_ahead(now_us, effects); // Before the report: that may carry the pull for it.
  report(now_us, effects);
  start_step(now_us, effects);
  return true;
}

void RankSteps::end_entry(const StepDone& event, const StepEntry& entry, const StepRow* row,
                          Tokens& tokens, std::int64_t now_us, Effects& effects) {
  Sequence& sequence = *table.find_any(entry.ref);
  leave_step(sequence, entry);
  if (sequence.doomed) {
    ++counts.wasted_rows;
    settle(sequence, effects);
  } else if (event.code != ErrorCode::ok) {
    fail(sequence, ErrorCode::engine_failed, true,
         "the step failed: " + std::string(error_name(event.code)), effects);
  } else if (row == nullptr) {
    fail(sequence, ErrorCode::engine_failed, false, "the step has no row for it", effects);
  } else {
    take_row(sequence, entry, *row, tokens, now_us, effects);
  }
}

/// Applies one row; the token it drew goes to `tokens`.
void RankSteps::take_row(Sequence& sequence, const StepEntry& entry, const StepRow& row,
                         Tokens& tokens, std::int64_t now_us, Effects& effects) {
  if (row.status != ErrorCode::ok) {
    const bool lost = row.status == ErrorCode::rank_lost;
    fail(sequence, lost ? row.status : ErrorCode::engine_failed, lost,
         "the engine failed on this sequence: " + std::string(error_name(row.status)), effects);
    return;
  }
  const std::int64_t length = entry.first_position + entry.count;
  if (row.length != length || row.drew != entry.draw) {
    fail(sequence, ErrorCode::engine_failed, false,
         "the engine holds " + std::to_string(row.length) + " tokens where " +
             std::to_string(length) + " were expected",
         effects);
    return;
  }
  sequence.positions = length;
  if (sequence.state == SequenceState::prefilling) reporter.advanced(sequence.ref);
  if (!entry.draw) return;
  TokenRow token = row.token;
  token.ref = sequence.ref;
  token.index = sequence.answered++;
  if (token.end == EndReason::none && sequence.answered >= sequence.new_tokens_max) {
    token.end = EndReason::length;
  }
  const bool ended = token.end != EndReason::none;
  tokens.rows.push_back(std::move(token));
  if (ended) {
    drop(sequence, effects);
  } else if (sequence.state == SequenceState::prefilling) {
    finish_prefill(sequence, now_us, effects);
  }
}

void RankSteps::finish_prefill(Sequence& sequence, std::int64_t now_us, Effects& effects) {
  if (decodes(options.role)) {
    prefill_done(sequence, {}, now_us, effects);
    return;
  }
  sequence.state = SequenceState::exporting;
  sequence.engine = true;
  effects.add(ExportSequence{sequence.ref, sequence.slot, sequence.blocks.blocks()});
}

void RankSteps::prefill_done(Sequence& sequence, std::string manifest, std::int64_t now_us,
                             Effects& effects) {
  sequence.state = SequenceState::finished;
  lease(sequence, options.lease_us, now_us, effects);
  effects.send(Peer::balancer, prefill_done_of(sequence, options, std::move(manifest)));
}

} // namespace troupe::sched
