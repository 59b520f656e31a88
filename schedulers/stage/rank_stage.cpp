#include "schedulers/stage/rank_stage.hpp"

#include "schedulers/model/rank_view.hpp"
#include "schedulers/stage/rank_steps.hpp"
#include "schedulers/stage/views.hpp"

#include <algorithm>
#include <utility>

namespace troupe::sched {

struct RankStage::State : RankSteps {
  RequestRef promised_to; ///< A handoff that found no room and goes before new prefills.
  std::int64_t promised_until_us = -1;

  using RankSteps::RankSteps;

  bool mine(const RankRef& rank) {
    if (rank == options.rank) return true;
    ++counts.stale_dropped;
    return false;
  }
  std::int64_t blocks_of(std::int64_t positions) const {
    return blocks_for(positions, options.block_tokens);
  }

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

bool RankStage::has_work() const noexcept {
  const auto& all = state_->table.by_serial();
  return std::any_of(all.begin(), all.end(), [](const Sequence* one) {
    return one->decodes() || (one->state == SequenceState::prefilling && !one->doomed);
  });
}

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
  begin_prefill(*sequence, event);
  if (sequence->renewed) s.lease(*sequence, event.lease_us, now_us, effects);
  effects.send(Peer::chunker, Assigned{event.ref, s.options.rank});
  if (s.step_runs()) s.start_step(now_us, effects); // Its first slice may be planned ahead.
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
  if (!state_->end_step(event, now_us, effects)) ++state_->counts.stale_dropped;
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
  if (auto lost = lost_with_lease(*sequence, s.options.rank)) {
    effects.send(Peer::driver, std::move(*lost));
  }
  s.drop(*sequence, effects);
  s.report_freed(now_us, effects);
}

} // namespace troupe::sched
