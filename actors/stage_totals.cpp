#include "actors/stage_totals.hpp"

#include <utility>

namespace troupe::actors {

void StageTotals::count_decisions(const sched::Effects& effects) {
  for (const sched::Effect& effect : effects.list()) {
    const auto* record = std::get_if<sched::Record>(&effect);
    if (record == nullptr) continue;
    const std::lock_guard lock(mutex_);
    ++decisions_[{record->kind, record->policy, record->reason}];
    RecentDecision& recent = recent_[recent_next_++ % kRecent];
    recent.kind = record->kind;
    recent.policy = record->policy;
    recent.reason = record->reason;
    recent.epoch = record->epoch;
    recent.ref = record->ref;
    recent.rank = record->rank;
    recent.value = record->value;
  }
}

std::vector<DecisionCount> StageTotals::decisions() const {
  const std::lock_guard lock(mutex_);
  std::vector<DecisionCount> out;
  for (const auto& [key, count] : decisions_)
    out.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), count});
  return out;
}

std::vector<RecentDecision> StageTotals::recent() const {
  const std::lock_guard lock(mutex_);
  std::vector<RecentDecision> out;
  for (std::size_t i = recent_next_ < kRecent ? 0 : recent_next_ - kRecent; i < recent_next_; ++i)
    out.push_back(recent_[i % kRecent]);
  return out;
}

std::vector<RecentDecision> StageTable::recent() const {
  std::vector<RecentDecision> out;
  for (const auto& [name, totals] : all()) {
    for (RecentDecision& one : totals->recent()) {
      one.stage = name;
      out.push_back(std::move(one));
    }
  }
  return out;
}

std::shared_ptr<StageTotals> StageTable::of(const std::string& stage) {
  const std::lock_guard lock(mutex_);
  auto& entry = stages_[stage];
  if (!entry) entry = std::make_shared<StageTotals>();
  return entry;
}

std::map<std::string, std::shared_ptr<StageTotals>> StageTable::all() const {
  const std::lock_guard lock(mutex_);
  return stages_;
}

} // namespace troupe::actors
