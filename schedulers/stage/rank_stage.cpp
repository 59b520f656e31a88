#include "schedulers/stage/rank_stage.hpp"

#include "schedulers/model/rank_view.hpp"
#include "schedulers/stage/preemption.hpp"
#include "schedulers/stage/rank_reporter.hpp"
#include "schedulers/stage/sequence_table.hpp"
#include "schedulers/stage/step_composer.hpp"
#include "schedulers/stage/views.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace troupe::sched {
namespace {

constexpr std::uint64_t kRepeatKey = 0; ///< Steps count from 1.

} // namespace

struct RankStage::State {
  RankOptions options;
  StepComposer composer;
  RankCounts counts;
  SequenceTable table;
  RankReporter reporter;
  ExpertReporter experts;
  bool repeat_timer = false; ///< A report that only repeats what came free is under way.
  std::uint64_t step_next = 1;
  std::uint64_t pull_timer_step = 0; ///< Step that a pull_again timer is under way for.
  std::optional<RunChunks> answer;   ///< To the pull of step_next.
  std::vector<StepEntry> in_flight;  ///< Entries of the running step; empty when none runs.
  RequestRef promised_to;            ///< A handoff that found no room and goes before new prefills.
  std::int64_t promised_until_us = -1;

  State(const RankOptions& given, const PolicySet& set, const PolicyRegistry& registry)
      : options(given), composer(given, set, registry), table(given.kv_blocks, given.slots),
        experts(given.rank, given.experts) {
    TROUPE_CHECK(given.block_tokens >= 1 && given.step_tokens_max >= 1,
                 "a rank has blocks and steps of at least one token");
    recount();
  }

  // -- helpers -----------------------------------------------------------------------------------

  bool step_runs() const noexcept { return !in_flight.empty(); }
  bool pulls() const noexcept { return prefills(options.role) && !step_runs() && !answer; }
  bool mine(const RankRef& rank) {
    if (rank == options.rank) return true;
    ++counts.stale_dropped;
    return false;
  }

  std::int64_t blocks_of(std::int64_t positions) const {
    return blocks_for(positions, options.block_tokens);
  }

  void recount() {
    counts.kv_blocks_free = table.blocks().free();
    counts.kv_blocks_reserved = table.blocks().total() - table.blocks().free();
    counts.slots_free = table.slots().free();
    counts.slots_reserved = table.slots().used();
  }

  /// Snapshot to everybody who decides about this rank, and the pull when it waits for one.
  void report(std::int64_t now_us, Effects& effects) {
    recount();
    RankReport made = reporter.make(options, table);
    made.step_next = step_next;
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

  void lease(Sequence& sequence, std::int64_t lease_us, std::int64_t now_us, Effects& effects) {
    sequence.renew(now_us + lease_us);
    watch_lease(sequence, effects);
  }

  /// A timer for the end of the lease, unless one comes before that and looks again.
  static void watch_lease(Sequence& sequence, Effects& effects) {
    const std::int64_t due_us = sequence.lease_until_us;
    if (sequence.lease_timer_us != 0 && sequence.lease_timer_us <= due_us) return;
    sequence.lease_timer_us = due_us;
    effects.timer(TimerKind::lease, sequence.serial, due_us);
  }

  /// Gives up a sequence and remembers to tell the others once its room is back.
  void drop(Sequence& sequence, Effects& effects) {
    const RequestRef ref = sequence.ref;
    if (!table.drop(sequence)) return;
    reporter.freed(ref);
    effects.add(Forget{ref});
  }

  void settle(Sequence& sequence, Effects& effects) {
    const RequestRef ref = sequence.ref;
    if (!table.settle(sequence)) return;
    reporter.freed(ref);
    effects.add(Forget{ref});
  }

  /// Room came back: nobody learns of it from a step, so it is reported now. A sequence that sat
  /// out for want of a block may go on.
  void report_freed(std::int64_t now_us, Effects& effects) {
    if (reporter.has_news() && !step_runs()) {
      report(now_us, effects);
      start_step(now_us, effects);
    }
    recount();
  }

  void fail(Sequence& sequence, ErrorCode code, bool retryable, std::string detail,
            Effects& effects) {
    effects.send(Peer::driver,
                 Ended{sequence.ref, code, retryable, std::move(detail), options.rank});
    drop(sequence, effects);
  }

  // -- composing a step --------------------------------------------------------------------------

  void preempt(const Preempted& victim, Effects& effects) {
    ++counts.preempted;
    announce(victim, options.rank, composer.epoch(), effects);
    reporter.freed(victim.ref);
  }

  /// Starts a step when there is work and, where chunks are pulled, the answer for it. An answer
  /// that left nothing to do is used up, and the next step asked for; where all that decode wait
  /// for blocks on their way, it is kept until those are back.
  void start_step(std::int64_t now_us, Effects& effects) {
    if (step_runs() || (prefills(options.role) && !answer)) return;
    for (const Preempted& victim : make_room(table, options.block_tokens))
      preempt(victim, effects);
    recount();
    const std::vector<Slice> slices =
        answer ? true_slices(*answer, table, reporter) : std::vector<Slice>{};
    if (slices.empty() && !any_decodes(table, options.block_tokens)) {
      if (table.decoding() > 0) return;
      if (answer) ++step_next;
      if (answer || reporter.has_news()) {
        answer.reset();
        report(now_us, effects);
      }
      return;
    }
    answer.reset();
    RunStep step = composer.compose(step_next, slices, table, options, now_us, effects);
    step.expert_epoch = experts.epoch();
    step.count_experts = experts.counts();
    std::int64_t tokens = 0;
    for (const StepEntry& entry : step.entries)
      tokens += entry.count;
    reporter.stepped(tokens);
    counts.invalid_decisions = composer.invalid_decisions();
    ++counts.steps;
    in_flight = step.entries;
    effects.add(std::move(step));
  }

  // -- the end of a step -------------------------------------------------------------------------

  /// Applies one row; the token it drew goes to `tokens`.
  void take_row(Sequence& sequence, const StepEntry& entry, const StepRow& row, Tokens& tokens,
                std::int64_t now_us, Effects& effects) {
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

  void finish_prefill(Sequence& sequence, std::int64_t now_us, Effects& effects) {
    if (decodes(options.role)) {
      prefill_done(sequence, {}, now_us, effects);
      return;
    }
    sequence.state = SequenceState::exporting;
    sequence.engine = true;
    effects.add(ExportSequence{sequence.ref, sequence.slot, sequence.blocks.blocks()});
  }

  void prefill_done(Sequence& sequence, std::string manifest, std::int64_t now_us,
                    Effects& effects) {
    sequence.state = SequenceState::finished;
    lease(sequence, options.lease_us, now_us, effects);
    PrefillDone done;
    done.ref = sequence.ref;
    done.rank = options.rank;
    done.positions = sequence.positions;
    done.positions_max = sequence.positions_max;
    done.answered = sequence.answered;
    done.new_tokens_max = sequence.new_tokens_max;
    done.arrival_us = sequence.arrival_us;
    done.claim = sequence.claim;
    done.session_hash = sequence.session_hash;
    done.lease_us = options.lease_us;
    done.in_place = decodes(options.role);
    done.manifest = std::move(manifest);
    effects.send(Peer::balancer, std::move(done));
  }

  // -- handoff -----------------------------------------------------------------------------------

  void refuse(const RequestRef& ref, HandoffId handoff, Peer to, ErrorCode reason,
              std::int64_t now_us, Effects& effects) {
    ++counts.refused;
    effects.send(to, Refused{ref, options.rank, handoff, reason});
    if (table.find_any(ref) == nullptr) effects.add(Forget{ref});
    if (!step_runs()) report(now_us, effects); // The view that led here is wrong.
  }

  void start_decoding(Sequence& sequence, HandoffId handoff, std::int64_t now_us,
                      Effects& effects) {
    const bool first = table.decoding() == 0;
    sequence.state = SequenceState::decoding;
    sequence.handoff = handoff;
    sequence.last_step = 0;
    effects.send(Peer::balancer, Adopted{sequence.ref, options.rank, handoff});
    // The chunker may hold the pull of an idle rank back: it must learn that this one decodes now.
    if (first && pulls()) report(now_us, effects);
    start_step(now_us, effects);
    recount();
  }
};

RankStage::RankStage(const RankOptions& options, const PolicySet& set,
                     const PolicyRegistry& registry)
    : state_(std::make_unique<State>(options, set, registry)) {}

RankStage::~RankStage() = default;

const RankCounts& RankStage::counts() const noexcept { return state_->counts; }

Status RankStage::check() const { return state_->table.check(); }

std::int64_t RankStage::sequences() const noexcept {
  return static_cast<std::int64_t>(state_->table.all().size());
}

void RankStage::start(std::int64_t now_us, Effects& effects) {
  const RankUp up = rank_up(state_->options);
  effects.send(Peer::driver, up);
  effects.send(Peer::chunker, up);
  effects.send(Peer::balancer, up);
  state_->composer.slots().announce(effects);
  state_->report(now_us, effects);
}

void RankStage::on(const Assign& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (!s.mine(event.rank)) {
    // The shell keeps the work of an Assign before the stage sees it.
    if (s.table.find_any(event.ref) == nullptr) effects.add(Forget{event.ref});
    return;
  }
  if (const Sequence* known = s.table.find_any(event.ref)) {
    if (known->doomed || known->state != SequenceState::prefilling) {
      ++s.counts.stale_dropped;
    } else {
      effects.send(Peer::chunker, Assigned{event.ref, s.options.rank}); // The first one was lost.
    }
    return;
  }
  const Work& work = event.work;
  const auto answered = static_cast<std::int64_t>(work.answered.size());
  const PlacementQuery query{view_of(event), {}};
  const RankView self = empty_rank(s.options);
  if (!prefills(s.options.role) || work.prompt.empty() || work.new_tokens_max <= answered ||
      !could_fit(query, self)) {
    s.refuse(event.ref, {}, Peer::chunker, ErrorCode::never_fits, now_us, effects);
    return;
  }
  // A finished prefill that waits for this room holds room elsewhere: it goes first for a while.
  const bool kept = now_us < s.promised_until_us;
  Sequence* sequence = kept ? nullptr : s.table.add(event.ref, blocks_needed(query, self));
  if (sequence == nullptr) {
    s.refuse(event.ref, {}, Peer::chunker, ErrorCode::no_room, now_us, effects);
    return;
  }
  sequence->total = work.prefill_tokens();
  sequence->positions_max = work.positions_max();
  sequence->answered = answered;
  sequence->new_tokens_max = work.new_tokens_max;
  sequence->arrival_us = event.arrival_us;
  sequence->claim = event.claim;
  sequence->session_hash = event.session_hash;
  sequence->renewed = event.lease_us > 0;
  if (sequence->renewed) s.lease(*sequence, event.lease_us, now_us, effects);
  effects.send(Peer::chunker, Assigned{event.ref, s.options.rank});
  s.recount();
}

void RankStage::on(const RunChunks& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (!s.mine(event.rank)) return;
  if (!s.pulls() || event.step != s.step_next) {
    ++s.counts.stale_dropped;
    return;
  }
  s.answer = event;
  s.start_step(now_us, effects);
}

void RankStage::on(const Reserve& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (!s.mine(event.rank)) return;
  const PlacementQuery query{view_of(event), {}};
  const RankView self = empty_rank(s.options);
  if (!decodes(s.options.role) || event.positions_max < 1 || !could_fit(query, self)) {
    s.refuse(event.ref, event.handoff, Peer::balancer, ErrorCode::never_fits, now_us, effects);
    return;
  }
  // A sequence of that request that is still here (an older try that the engine works on) blocks.
  Sequence* sequence = s.table.find_any(event.ref) != nullptr
                           ? nullptr
                           : s.table.add(event.ref, blocks_needed(query, self));
  if (sequence == nullptr) {
    s.promised_to = event.ref;
    s.promised_until_us = now_us + event.lease_us;
    s.refuse(event.ref, event.handoff, Peer::balancer, ErrorCode::no_room, now_us, effects);
    return;
  }
  if (s.promised_to == event.ref) s.promised_until_us = -1;
  sequence->state = SequenceState::reserved;
  sequence->handoff = event.handoff;
  sequence->positions_max = event.positions_max;
  sequence->arrival_us = event.arrival_us;
  sequence->claim = event.claim;
  s.lease(*sequence, event.lease_us, now_us, effects);
  effects.send(Peer::balancer, Reserved{event.ref, s.options.rank, event.handoff});
  s.recount();
}

void RankStage::on(const Renew& event, std::int64_t now_us, Effects& /*effects*/) {
  State& s = *state_;
  if (!s.mine(event.rank)) return;
  Sequence* sequence = s.table.find(event.ref);
  const bool source = sequence != nullptr && (sequence->state == SequenceState::finished ||
                                              sequence->state == SequenceState::prefilling ||
                                              sequence->state == SequenceState::exporting);
  if (sequence == nullptr || !sequence->leased() ||
      (!source && sequence->handoff != event.handoff)) {
    ++s.counts.stale_dropped;
    return;
  }
  sequence->renew(std::max(sequence->lease_until_us, now_us + event.lease_us));
}

void RankStage::on(const Pull& event, std::int64_t /*now_us*/, Effects& effects) {
  State& s = *state_;
  if (!s.mine(event.rank)) return;
  Sequence* sequence = s.table.find(event.ref);
  if (sequence == nullptr || sequence->handoff != event.handoff ||
      sequence->state != SequenceState::reserved || event.positions < 1 ||
      s.blocks_of(event.positions) > sequence->blocks.capacity()) {
    ++s.counts.stale_dropped;
    effects.send(Peer::balancer, TransferDone{event.ref,
                                              s.options.rank,
                                              event.handoff,
                                              ErrorCode::stale,
                                              {},
                                              "the decode rank holds no such reservation"});
    return;
  }
  s.table.grow(*sequence, event.positions, s.options.block_tokens);
  sequence->state = SequenceState::importing;
  sequence->engine = true;
  effects.add(ImportSequence{event, sequence->slot, sequence->blocks.blocks()});
}

void RankStage::on(const Adopt& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (!s.mine(event.rank)) return;
  Sequence* sequence = s.table.find(event.ref);
  if (sequence != nullptr && sequence->state == SequenceState::decoding &&
      sequence->handoff == event.handoff) {
    effects.send(Peer::balancer, Adopted{event.ref, s.options.rank, event.handoff});
    return;
  }
  const bool in_place = sequence != nullptr && decodes(s.options.role) &&
                        (sequence->state == SequenceState::finished ||
                         (sequence->state == SequenceState::decoding &&
                          sequence->handoff < event.handoff && sequence->total > 0));
  const bool arrived = sequence != nullptr && sequence->state == SequenceState::imported &&
                       sequence->handoff == event.handoff;
  if (!in_place && !arrived) {
    ++s.counts.stale_dropped;
    s.refuse(event.ref, event.handoff, Peer::balancer, ErrorCode::stale, now_us, effects);
    return;
  }
  if (arrived && sequence->digest != event.digest) {
    s.drop(*sequence, effects);
    s.refuse(event.ref, event.handoff, Peer::balancer, ErrorCode::bad_digest, now_us, effects);
    return;
  }
  s.start_decoding(*sequence, event.handoff, now_us, effects);
}

void RankStage::on(const Release& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (!s.mine(event.rank)) return;
  Sequence* sequence = s.table.find(event.ref);
  if (sequence == nullptr) return; // Ended, or released by the other stage already.
  s.drop(*sequence, effects);
  s.report_freed(now_us, effects);
}

void RankStage::on(const StepDone& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (!s.step_runs() || event.step != s.step_next) {
    ++s.counts.stale_dropped;
    return;
  }
  const std::vector<StepEntry> entries = std::move(s.in_flight);
  s.in_flight.clear();
  Tokens tokens{s.options.rank, event.step, {}};
  tokens.rows.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const StepEntry& entry = entries[i];
    Sequence& sequence = *s.table.find_any(entry.ref);
    sequence.in_step = false;
    const StepRow* row = row_of(event, i, entry.ref);
    if (sequence.doomed) {
      s.settle(sequence, effects);
    } else if (event.code != ErrorCode::ok) {
      s.fail(sequence, ErrorCode::engine_failed, true,
             "the step failed: " + std::string(error_name(event.code)), effects);
    } else if (row == nullptr) {
      s.fail(sequence, ErrorCode::engine_failed, false, "the step has no row for it", effects);
    } else {
      s.take_row(sequence, entry, *row, tokens, now_us, effects);
    }
  }
  if (!tokens.rows.empty()) effects.send(Peer::driver, std::move(tokens));
  if (event.code == ErrorCode::ok) {
    s.experts.count(event.step, event.expert_epoch, event.expert_counts, now_us, effects);
  }
  s.counts.tokens += s.reporter.last_step_tokens();
  s.counts.busy_us += event.compute_us;
  s.reporter.step_took(event.compute_us);
  ++s.step_next;
  s.report(now_us, effects);
  s.start_step(now_us, effects);
}

void RankStage::on(const Exported& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  Sequence* sequence = s.table.find_any(event.ref);
  if (sequence == nullptr || sequence->state != SequenceState::exporting) {
    ++s.counts.stale_dropped;
    return;
  }
  sequence->engine = false;
  if (sequence->doomed) {
    s.settle(*sequence, effects);
  } else if (event.code != ErrorCode::ok) {
    s.fail(*sequence, ErrorCode::engine_failed, true,
           "export of the finished prefill failed: " + std::string(error_name(event.code)),
           effects);
  } else {
    s.prefill_done(*sequence, event.manifest, now_us, effects);
  }
  s.report_freed(now_us, effects);
}

void RankStage::on(const Imported& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  Sequence* sequence = s.table.find_any(event.ref);
  if (sequence == nullptr || sequence->state != SequenceState::importing ||
      sequence->handoff != event.handoff) {
    ++s.counts.stale_dropped;
    return;
  }
  sequence->engine = false;
  if (sequence->doomed) {
    s.settle(*sequence, effects);
    s.report_freed(now_us, effects);
    return;
  }
  TransferDone done{event.ref,  s.options.rank, event.handoff,
                    event.code, event.digest,   event.detail};
  const bool sane =
      event.positions >= 1 && event.answered >= 1 && event.answered < event.new_tokens_max &&
      event.positions + event.new_tokens_max - event.answered <= sequence->positions_max;
  if (done.code == ErrorCode::ok && !sane) {
    done.code = ErrorCode::mismatch;
    done.detail = "the sequence that arrived is not the one that room was reserved for";
  }
  if (done.code != ErrorCode::ok) {
    s.drop(*sequence, effects);
  } else {
    sequence->state = SequenceState::imported;
    sequence->positions = event.positions;
    sequence->answered = event.answered;
    sequence->new_tokens_max = event.new_tokens_max;
    sequence->digest = event.digest;
  }
  effects.send(Peer::balancer, std::move(done));
  s.report_freed(now_us, effects);
}

void RankStage::on(const ExpertPlan& event, std::int64_t /*now_us*/, Effects& /*effects*/) {
  State& s = *state_;
  if (s.mine(event.rank) && !s.experts.take(event)) ++s.counts.stale_dropped;
}

void RankStage::on(const SwapPrepare& event, std::int64_t now_us, Effects& effects) {
  state_->composer.slots().on(event, now_us, effects);
}

void RankStage::on(const SwapCommit& event, std::int64_t now_us, Effects& effects) {
  state_->composer.slots().on(event, now_us, effects);
}

void RankStage::on(const SwapAbort& event, std::int64_t /*now_us*/, Effects& /*effects*/) {
  state_->composer.slots().on(event);
}

void RankStage::on(const Timer& event, std::int64_t now_us, Effects& effects) {
  State& s = *state_;
  if (event.kind == TimerKind::swap) return s.composer.slots().on(event, now_us);
  if (event.kind == TimerKind::pull_again && event.key == kRepeatKey) {
    s.repeat_timer = false;
    if (s.reporter.should_repeat()) s.report(now_us, effects);
    return;
  }
  if (event.kind == TimerKind::pull_again) {
    if (event.key != s.step_next) return;
    s.pull_timer_step = 0;
    if (s.pulls()) s.report(now_us, effects);
    return;
  }
  if (event.kind == TimerKind::experts) s.experts.wake(event.key, effects);
  if (event.kind != TimerKind::lease) return;
  Sequence* sequence = s.table.find_serial(event.key);
  if (sequence == nullptr || !sequence->leased()) return;
  const bool goes_on = sequence->lease_goes_on(now_us, s.options.lease_us);
  if (sequence->lease_timer_us <= now_us) sequence->lease_timer_us = 0;
  if (goes_on) {
    s.watch_lease(*sequence, effects);
    return;
  }
  ++s.counts.leases_expired;
  // Where nobody else has it, the driver must hear: it would only be missed much later.
  if (sequence->state == SequenceState::prefilling) {
    effects.send(Peer::driver, Ended{sequence->ref, ErrorCode::rank_lost, true,
                                     "its prefill was not renewed in time", s.options.rank});
  } else if (sequence->state == SequenceState::finished) {
    effects.send(Peer::driver,
                 Ended{sequence->ref, ErrorCode::transfer_failed, true,
                       "no decode rank took the finished prefill over in time", s.options.rank});
  }
  s.drop(*sequence, effects);
  s.report_freed(now_us, effects);
}

} // namespace troupe::sched
