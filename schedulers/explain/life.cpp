#include "schedulers/explain/life.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace troupe::sched {
namespace {

bool is_placement(const Record& record) {
  return record.kind == "prefill_router" || record.kind == "decode_balancer";
}

/// Whether a decision of that kind is about what a request in `phase` waits for.
bool is_awaited(const Record& record, Phase phase) {
  if (phase == Phase::waits_for_rank) return record.kind == "prefill_router";
  return phase == Phase::waits_for_room &&
         (record.kind == "decode_balancer" || record.kind == "handoff");
}

class Walk {
public:
  explicit Walk(const Life& life) : life_(life) {}

  std::vector<Leg> legs() {
    for (std::size_t i = 0; i < life_.entries.size() && !over_; ++i) {
      const LedgerEntry& entry = life_.entries[i];
      if (const auto* milestone = std::get_if<Milestone>(&entry.what)) {
        if (milestone->ref.request == life_.request) take(*milestone, entry, i);
      } else if (const auto* record = std::get_if<Record>(&entry.what)) {
        if (record->ref.request == life_.request) take(*record, entry.at_us, i);
      }
    }
    if (!over_) close(life_.finish ? life_.finish->end_us : life_.last_us, life_.entries.size());
    return std::move(legs_);
  }

private:
  void take(const Milestone& milestone, const LedgerEntry& entry, std::size_t place) {
    if (milestone.ref.attempt < attempt_) return;
    close(entry.at_us, place);
    over_ = milestone.phase == Phase::ended;
    if (over_) return;
    if (milestone.ref.attempt > attempt_ && !legs_.empty()) choice_ = nullptr;
    attempt_ = milestone.ref.attempt;
    Leg leg{milestone.ref, milestone.phase, entry.stage.kind, milestone.rank, milestone.detail};
    leg.choice = std::exchange(choice_, nullptr);
    leg.since = place + 1;
    const bool moved = leg.phase == Phase::decoding && !legs_.empty() &&
                       legs_.back().phase == Phase::handing_off && legs_.back().ref == leg.ref;
    if (moved) leg.since = legs_.back().first;
    open(std::move(leg), entry.at_us, place + 1);
  }

  void take(const Record& record, std::int64_t at_us, std::size_t place) {
    if (record.ref.attempt < attempt_ || record.kind == "queue") return;
    if (record.kind == "admission" || (is_placement(record) && record.value != 0)) {
      choice_ = &record;
    }
    if (record.value != 0 || legs_.empty() || !is_awaited(record, legs_.back().phase)) return;
    Leg leg = legs_.back();
    close(at_us, place);
    leg.choice = nullptr;
    leg.detail.clear();
    leg.refusal = &record;
    open(std::move(leg), at_us, place + 1);
  }

  void open(Leg leg, std::int64_t at_us, std::size_t first) {
    leg.from_us = at_us;
    leg.first = first;
    legs_.push_back(std::move(leg));
  }

  void close(std::int64_t at_us, std::size_t last) {
    if (legs_.empty()) return;
    legs_.back().to_us = at_us;
    legs_.back().last = last;
  }

  const Life& life_;
  std::vector<Leg> legs_;
  Attempt attempt_{};
  const Record* choice_ = nullptr;
  bool over_ = false;
};

} // namespace

void apply(Population& population, const LedgerEntry& entry) {
  if (const auto* finish = std::get_if<Finish>(&entry.what)) population.erase(finish->request);
  const auto* milestone = std::get_if<Milestone>(&entry.what);
  if (milestone == nullptr) return;
  const RequestId request = milestone->ref.request;
  if (milestone->phase == Phase::ended) {
    population.erase(request);
    return;
  }
  const bool begins =
      milestone->phase == Phase::waits_for_rank && entry.stage.kind == StageKind::driver;
  auto found = population.find(request);
  if (found == population.end()) {
    // A stage that has not heard of an ending yet does not bring a request back.
    if (!begins) return;
    found = population.emplace(request, Whereabouts{}).first;
    if (milestone->ref.attempt == Attempt{1}) found->second.arrival_us = entry.at_us;
  }
  Whereabouts& where = found->second;
  if (milestone->ref.attempt < where.ref.attempt) return;
  where.ref = milestone->ref;
  where.phase = milestone->phase;
  where.rank = milestone->phase == Phase::waits_for_rank ? RankRef{} : milestone->rank;
}

void sort_by_time(std::vector<LedgerEntry>& entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const LedgerEntry& a, const LedgerEntry& b) {
    return std::tie(a.at_us, a.number) < std::tie(b.at_us, b.number);
  });
}

std::vector<Leg> legs_of(const Life& life) { return Walk(life).legs(); }

bool may_follow(Phase from, Phase to, bool same_attempt) noexcept {
  if (to == Phase::ended) return from != Phase::ended;
  if (!same_attempt) return to == Phase::waits_for_rank && from != Phase::ended;
  switch (from) {
  case Phase::waits_for_rank:
    return to == Phase::waits_for_answer;
  case Phase::waits_for_answer:
    return to == Phase::waits_for_step || to == Phase::waits_for_rank;
  case Phase::waits_for_step:
    return to == Phase::prefilling;
  case Phase::prefilling:
    return to == Phase::waits_for_room;
  case Phase::waits_for_room:
    return to == Phase::handing_off;
  case Phase::handing_off:
    return to == Phase::decoding || to == Phase::waits_for_room;
  case Phase::decoding:
  case Phase::ended:
    break;
  }
  return false;
}

} // namespace troupe::sched
