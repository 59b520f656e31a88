// What the policy manager tells those who ask: published after each of its events.

#pragma once

#include "schedulers/stage/manager_stage.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {

/// What a shadow policy did so far.
struct ShadowTotals {
  std::string policy;
  std::int64_t decisions = 0; ///< It answered.
  std::int64_t disagreed = 0; ///< Of those, with another value than the live one.
  std::int64_t failed = 0;    ///< It gave no valid answer.
  /// Questions it was too slow for, those until it caught up, and those too large to be kept.
  std::int64_t dropped = 0;
};

struct ManagerView {
  sched::PolicySet live;
  bool probation = false;
  bool swapping = false;
  std::vector<sched::SetHistory> history;     ///< Oldest first; the last one is live.
  std::vector<sched::FaultTotal> faults;      ///< Of the live set.
  std::map<std::string, ShadowTotals> shadow; ///< By kind.
  std::int64_t canary_decisions = 0;
};

/// Thread: any.
class ManagerFacts {
public:
  /// What shadows and canaries of one set did is kept until another one is live.
  void publish(ManagerView view) {
    const std::lock_guard lock(mutex_);
    if (view.live.epoch == view_.live.epoch) {
      view.shadow = std::move(view_.shadow);
      view.canary_decisions = view_.canary_decisions;
    }
    view_ = std::move(view);
  }
  void publish_shadow(PolicyEpoch epoch, const std::string& kind, const ShadowTotals& totals) {
    const std::lock_guard lock(mutex_);
    if (epoch == view_.live.epoch) view_.shadow[kind] = totals;
  }
  void count_canary(PolicyEpoch epoch) {
    const std::lock_guard lock(mutex_);
    if (epoch == view_.live.epoch) ++view_.canary_decisions;
  }
  ManagerView view() const {
    const std::lock_guard lock(mutex_);
    return view_;
  }
  /// The set that a new life of a rank is built from.
  sched::PolicySet live() const {
    const std::lock_guard lock(mutex_);
    return view_.live;
  }

private:
  mutable std::mutex mutex_;
  ManagerView view_;
};

} // namespace troupe::actors
