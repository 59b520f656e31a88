#include "schedulers/stage/handoff_stage.hpp"

#include "schedulers/core/check.hpp"

#include <utility>

namespace troupe::sched {
namespace {

using What = HandoffOutcome::What;

HandoffOutcome outcome(What what, const RequestRef& ref) { return {what, ref, ErrorCode::ok, {}}; }

} // namespace

HandoffId HandoffStage::start(const PrefillDone& done, RankRef target, std::int64_t now_us,
                              Effects& effects) {
  TROUPE_CHECK(under_way_.count(done.ref) == 0, "one try of a request at a time");
  last_id_ = next(last_id_);
  Handoff handoff{done.ref, last_id_,       HandoffState::reserving, done.rank,
                  target,   done.positions, done.manifest,           done.in_place};
  ask(handoff, now_us);
  by_id_[last_id_] = done.ref;
  if (done.in_place) {
    handoff.state = HandoffState::adopting;
    effects.send_rank(Adopt{done.ref, target, last_id_, Digest{}});
  } else {
    ++transfers_;
    ++transfers_of_[done.rank];
    effects.send_rank(Reserve{done.ref, target, last_id_, done.positions_max, lease_us_,
                              done.answered, done.new_tokens_max, done.arrival_us, done.claim});
  }
  effects.timer(TimerKind::handoff, raw(last_id_), handoff.due_us);
  under_way_.emplace(done.ref, std::move(handoff));
  return last_id_;
}

HandoffOutcome HandoffStage::on(const Reserved& event, std::int64_t now_us, Effects& effects) {
  Handoff* handoff = match(event.ref, event.rank, event.handoff);
  if (handoff == nullptr || handoff->state != HandoffState::reserving) {
    return outcome(What::stale, event.ref);
  }
  handoff->state = HandoffState::pulling;
  ask(*handoff, now_us);
  effects.send_rank(Pull{handoff->ref, handoff->target, handoff->id, handoff->source,
                         handoff->positions, handoff->manifest});
  return outcome(What::reserved, event.ref);
}

HandoffOutcome HandoffStage::on(const Refused& event) {
  if (match(event.ref, event.rank, event.handoff) == nullptr) {
    return outcome(What::stale, event.ref);
  }
  erase(event.ref); // The target holds nothing: it said so.
  return {What::failed, event.ref, event.reason, "the decode rank refused"};
}

HandoffOutcome HandoffStage::on(const TransferDone& event, std::int64_t now_us, Effects& effects) {
  Handoff* handoff = match(event.ref, event.rank, event.handoff);
  if (handoff == nullptr || handoff->state != HandoffState::pulling) {
    return outcome(What::stale, event.ref);
  }
  if (event.code != ErrorCode::ok) return fail(*handoff, event.code, event.detail, effects);
  handoff->state = HandoffState::adopting;
  ask(*handoff, now_us);
  effects.send_rank(Adopt{handoff->ref, handoff->target, handoff->id, event.digest});
  return outcome(What::nothing, event.ref);
}

HandoffOutcome HandoffStage::on(const Adopted& event, Effects& effects) {
  Handoff* handoff = match(event.ref, event.rank, event.handoff);
  if (handoff == nullptr || handoff->state != HandoffState::adopting) {
    return outcome(What::stale, event.ref);
  }
  if (!handoff->in_place) {
    effects.send_rank(Release{handoff->ref, handoff->source, ErrorCode::ok});
  }
  erase(event.ref);
  return outcome(What::adopted, event.ref);
}

HandoffOutcome HandoffStage::on_timeout(std::uint64_t key, bool in_step, std::int64_t now_us,
                                        Effects& effects) {
  const auto found = by_id_.find(HandoffId{key});
  if (found == by_id_.end()) return {};
  Handoff& handoff = under_way_.at(found->second);
  if (now_us >= handoff.due_us && in_step && handoff.in_place) {
    ask(handoff, now_us);
    effects.send_rank(Adopt{handoff.ref, handoff.target, handoff.id, Digest{}});
  }
  if (now_us < handoff.due_us) {
    effects.timer(TimerKind::handoff, key, handoff.due_us);
    return {};
  }
  HandoffOutcome failed =
      fail(handoff, ErrorCode::transfer_failed,
           "the decode rank was silent for " + std::to_string(timeout_us_) + " us", effects);
  failed.in_step = in_step;
  return failed;
}

HandoffOutcome HandoffStage::fail(const Handoff& handoff, ErrorCode code, std::string detail,
                                  Effects& effects) {
  const RequestRef ref = handoff.ref;
  // In place, source and target are one sequence: it stays until the request itself is given up.
  if (!handoff.in_place) effects.send_rank(Release{ref, handoff.target, code});
  erase(ref);
  return {What::failed, ref, code, std::move(detail)};
}

void HandoffStage::cancel(const RequestRef& ref, ErrorCode reason, Effects& effects) {
  const Handoff* handoff = find(ref);
  if (handoff == nullptr) return;
  if (!handoff->in_place) effects.send_rank(Release{ref, handoff->target, reason});
  erase(ref);
}

void HandoffStage::drop(const RequestRef& ref) {
  if (find(ref) != nullptr) erase(ref);
}

void HandoffStage::renew(const RequestRef& ref, Effects& effects) const {
  const Handoff* handoff = find(ref);
  if (handoff == nullptr || handoff->in_place || handoff->state == HandoffState::reserving) return;
  effects.send_rank(Renew{ref, handoff->target, handoff->id, lease_us_});
}

void HandoffStage::ask(Handoff& handoff, std::int64_t now_us) const {
  handoff.asked_us = now_us;
  handoff.due_us = now_us + timeout_us_;
}

const Handoff* HandoffStage::find(HandoffId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &under_way_.at(found->second);
}

const Handoff* HandoffStage::find(const RequestRef& ref) const {
  const auto found = under_way_.find(ref);
  return found == under_way_.end() ? nullptr : &found->second;
}

std::int64_t HandoffStage::transfers_of(RankRef source) const {
  const auto found = transfers_of_.find(source);
  return found == transfers_of_.end() ? 0 : found->second;
}

Handoff* HandoffStage::match(const RequestRef& ref, RankRef rank, HandoffId id) {
  const auto found = under_way_.find(ref);
  if (found == under_way_.end()) return nullptr;
  return found->second.id == id && found->second.target == rank ? &found->second : nullptr;
}

void HandoffStage::erase(const RequestRef& ref) {
  const auto found = under_way_.find(ref);
  by_id_.erase(found->second.id);
  if (!found->second.in_place) {
    --transfers_;
    const auto of_source = transfers_of_.find(found->second.source);
    if (--of_source->second == 0) transfers_of_.erase(of_source);
  }
  under_way_.erase(found);
}

} // namespace troupe::sched
