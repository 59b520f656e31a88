#include "schedulers/stage/expert_reporter.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace troupe::sched {

ExpertReporter::ExpertReporter(const RankRef& rank, const ExpertReportOptions& options)
    : rank_(rank), options_(options),
      sums_(static_cast<std::size_t>(options.layers * options.experts), 0) {}

bool ExpertReporter::take(const ExpertPlan& plan) {
  const bool fits = static_cast<std::int64_t>(plan.maps.size()) == options_.layers &&
                    plan.topology.experts == options_.experts;
  if (!fits || plan.epoch <= epoch_) return false;
  epoch_ = plan.epoch;
  return true;
}

void ExpertReporter::count(std::uint64_t step, ExpertEpoch epoch,
                           std::span<const std::int32_t> counts, std::int64_t now_us,
                           Effects& effects) {
  if (!this->counts()) return;
  if (steps_ > 0 && epoch != counted_epoch_) report(effects);
  if (steps_ == 0) {
    first_step_ = step;
    counted_epoch_ = epoch;
    effects.timer(TimerKind::experts, ++serial_, now_us + options_.wait_us);
  }
  ++steps_;
  whole_ = whole_ && counts.size() == sums_.size();
  for (std::size_t i = 0; whole_ && i < sums_.size(); ++i)
    sums_[i] += counts[i];
  if (steps_ >= options_.steps_max) report(effects);
}

void ExpertReporter::wake(std::uint64_t key, Effects& effects) {
  if (key == serial_ && steps_ > 0) report(effects);
}

void ExpertReporter::report(Effects& effects) {
  ExpertLoads loads{rank_, counted_epoch_, first_step_, steps_, {}};
  const auto experts = static_cast<std::ptrdiff_t>(options_.experts);
  for (std::int32_t layer = 0; whole_ && layer < options_.layers; ++layer) {
    const auto begin = sums_.begin() + layer * experts;
    loads.layers.push_back({layer, {begin, begin + experts}});
  }
  std::fill(sums_.begin(), sums_.end(), 0);
  steps_ = 0;
  whole_ = true;
  effects.send(Peer::experts, std::move(loads));
}

} // namespace troupe::sched
