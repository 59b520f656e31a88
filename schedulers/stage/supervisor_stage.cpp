#include "schedulers/stage/supervisor_stage.hpp"

#include <algorithm>
#include <utility>

namespace troupe::sched {
namespace {

constexpr std::int64_t kUsPerS = 1'000'000;

bool does(Role role, Role half) { return half == Role::prefill ? prefills(role) : decodes(role); }

} // namespace

SupervisorStage::SupervisorStage(SupervisorOptions options) : options_(std::move(options)) {
  for (const SupervisedRank& rank : options_.ranks) {
    Entry entry;
    entry.facts = rank;
    entry.ref = {rank.rank, Incarnation{1}};
    ranks_.emplace(rank.rank, std::move(entry));
  }
}

SupervisorStage::Entry* SupervisorStage::current(RankRef rank) {
  const auto found = ranks_.find(rank.rank);
  if (found != ranks_.end() && found->second.ref == rank) return &found->second;
  ++counts_.stale_dropped;
  return nullptr;
}

void SupervisorStage::on(const RankEnded& event, std::int64_t /*now_us*/, Effects& effects) {
  Entry* entry = current(event.rank);
  if (entry == nullptr || entry->life != Life::up) return;
  lost(*entry, event.detail, true, effects);
}

void SupervisorStage::on(const RankStarted& event, std::int64_t /*now_us*/, Effects& effects) {
  Entry* entry = current(event.rank);
  if (entry == nullptr || entry->life != Life::starting) return;
  if (event.code == ErrorCode::ok) {
    entry->life = Life::up;
    entry->begun = 0;
    entry->lane_begun = 0;
    entry->silent_us = 0;
    return;
  }
  lost(*entry, "it could not start again: " + event.detail, true, effects);
}

void SupervisorStage::on(const Heartbeat& event, std::int64_t /*now_us*/, Effects& effects) {
  for (const RankBeat& beat : event.ranks) {
    const auto found = ranks_.find(beat.rank.rank);
    if (found == ranks_.end() || found->second.ref != beat.rank) continue;
    if (found->second.life == Life::up) look_at(found->second, beat, event, effects);
  }
  for (auto& [id, entry] : ranks_) {
    if (entry.life == Life::waiting) start(entry, effects);
  }
}

void SupervisorStage::look_at(Entry& entry, const RankBeat& beat, const Heartbeat& event,
                              Effects& effects) {
  const bool same_work = (beat.works && beat.begun == entry.begun) ||
                         (beat.lane_works && beat.lane_begun == entry.lane_begun);
  entry.begun = beat.begun;
  entry.lane_begun = beat.lane_begun;
  entry.silent_us = same_work ? entry.silent_us + options_.heartbeat_us : 0;
  if (entry.silent_us < options_.silence_us_max) return;
  std::string why =
      "it did not return from its work for " + std::to_string(entry.silent_us / kUsPerS) + " s";
  // The abandoned life keeps its memory until its thread returns, if it ever does.
  const bool fits = event.memory_available_bytes >= entry.facts.memory_bytes;
  if (!fits) {
    why += ", and " + std::to_string(event.memory_available_bytes) +
           " bytes of memory are too few for a second one of " +
           std::to_string(entry.facts.memory_bytes);
  }
  ++counts_.abandoned;
  effects.add(AbandonRank{entry.ref, why});
  lost(entry, std::move(why), fits, effects);
}

void SupervisorStage::start(Entry& entry, Effects& effects) {
  entry.life = Life::starting;
  effects.add(StartRank{entry.ref});
}

/// One life is over. The stages hear of it before the next one can say anything.
void SupervisorStage::lost(Entry& entry, std::string why, bool replaceable, Effects& effects) {
  ++counts_.lost;
  const bool again = replaceable && entry.restarts < options_.restarts_max;
  const bool failed_start = entry.life == Life::starting;
  entry.why = std::move(why);
  if (!again) {
    // Before anybody can end a request for the loss of a rank: lines are left, not failed.
    entry.life = Life::gone;
    ++counts_.gone;
    tell_if_none_left(Role::prefill, effects);
    tell_if_none_left(Role::decode, effects);
  }
  const RankDown down{entry.ref, ErrorCode::rank_lost, again};
  effects.send(Peer::driver, down);
  effects.send(Peer::chunker, down);
  effects.send(Peer::balancer, down);
  effects.send(Peer::manager, down);
  if (!again) return;
  ++entry.restarts;
  ++counts_.restarts;
  entry.ref.incarnation = next(entry.ref.incarnation);
  if (failed_start) {
    entry.life = Life::waiting;
  } else {
    start(entry, effects);
  }
}

void SupervisorStage::tell_if_none_left(Role half, Effects& effects) {
  bool& told = half == Role::prefill ? told_prefill_ : told_decode_;
  std::string names;
  for (const auto& [id, entry] : ranks_) {
    if (!does(entry.facts.role, half)) continue;
    if (entry.life != Life::gone) return;
    names += (names.empty() ? "" : "; ") + entry.facts.name + " was lost " +
             std::to_string(entry.restarts + 1) + " times, at last because " + entry.why;
  }
  if (names.empty() || std::exchange(told, true)) return;
  effects.send(Peer::driver,
               NoRankLeft{half, "no " + std::string(role_name(half)) + " rank is left: " + names});
}

} // namespace troupe::sched
