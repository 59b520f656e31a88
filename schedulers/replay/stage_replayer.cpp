#include "schedulers/replay/stage_replayer.hpp"

#include "schedulers/replay/stage_life.hpp"

#include <map>
#include <utility>

namespace troupe::sched {

namespace {

template <class Count>
std::int64_t sum(const std::vector<StageLife>& lives, Count count) {
  std::int64_t out = 0;
  for (const StageLife& life : lives)
    out += count(life);
  return out;
}

} // namespace

std::int64_t StagesReport::events() const noexcept {
  return sum(lives, [](const StageLife& life) { return life.events; });
}

std::int64_t StagesReport::equal() const noexcept {
  return sum(lives, [](const StageLife& life) { return life.equal; });
}

std::int64_t StagesReport::different() const noexcept {
  return sum(lives, [](const StageLife& life) { return life.first ? 1 : 0; });
}

std::int64_t StagesReport::stopped() const noexcept {
  return sum(lives, [](const StageLife& life) { return !life.first && !life.stopped.empty(); });
}

struct StageReplayer::State {
  const PolicyRegistry* registry;
  std::vector<std::unique_ptr<FollowedLife>> lives;
  std::map<StageRef, FollowedLife*> current;
  std::optional<std::uint64_t> next_number;

  FollowedLife& begin(const StageRef& stage) {
    lives.push_back(std::make_unique<FollowedLife>(stage));
    return *(current[stage] = lives.back().get());
  }

  FollowedLife* of(const StageRef& stage) const {
    const auto found = current.find(stage);
    return found == current.end() ? nullptr : found->second;
  }

  void take(const LedgerEntry& entry, const StageBegan& began) {
    begin(entry.stage).build(began, *registry);
  }

  void take(const LedgerEntry& entry, const StageTook& took) {
    FollowedLife* life = of(entry.stage);
    if (life == nullptr) {
      life = &begin(entry.stage);
      life->stop("its beginning is not in this ledger: the oldest segments go when it reaches "
                 "ledger.size_max, and what the queue had no room for is lost");
    }
    life->take(entry, took);
  }

  template <class Said>
  void take(const LedgerEntry& entry, const Said& /*said*/) {
    FollowedLife* life = of(entry.stage);
    if (life != nullptr) life->compare(entry);
  }

  /// The first thing that a run says: whoever lived before is gone, and what a run without events
  /// says belongs to nobody here.
  void take(const LedgerEntry& /*entry*/, const SetLive& live) {
    if (live.how == SwapCause::start) current.clear();
  }
  void take(const LedgerEntry& /*entry*/, const RequestNamed& /*named*/) {}

  /// Whose entries are missing is not known before the next one of each stage.
  void lost_some() {
    for (auto& [stage, life] : current)
      life->doubt();
  }
};

StageReplayer::StageReplayer(const PolicyRegistry& registry) : state_(std::make_unique<State>()) {
  state_->registry = &registry;
}
StageReplayer::~StageReplayer() = default;
StageReplayer::StageReplayer(StageReplayer&&) noexcept = default;
StageReplayer& StageReplayer::operator=(StageReplayer&&) noexcept = default;

void StageReplayer::feed(const LedgerEntry& entry) {
  State& state = *state_;
  if (state.next_number && entry.number > *state.next_number) state.lost_some();
  state.next_number = entry.number + 1;
  std::visit([&](const auto& what) { state.take(entry, what); }, entry.what);
}

StagesReport StageReplayer::finish() {
  StagesReport report;
  for (const auto& life : state_->lives)
    report.lives.push_back(life->end());
  return report;
}

} // namespace troupe::sched
