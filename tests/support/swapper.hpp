// Asks a running policy manager for swaps, from a test's thread; and looks whether every decision
// carries the epoch that is live on its stage.

#pragma once

#include "actors/messages.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/stage/ledger_entry.hpp"

#include <caf/scoped_actor.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::test {

/// Thread: one owner. It must end before the system of the manager does.
class Swapper {
public:
  explicit Swapper(caf::actor manager)
      : manager_(std::move(manager)), self_(manager_.home_system()) {}

  sched::SwapEnded swap(const sched::PolicySet& set) {
    return ask(sched::SwapAsked{++question_, set, sched::SwapCause::command, "a test"});
  }
  sched::SwapEnded roll_back() { return ask(sched::RollbackAsked{++question_, "a test"}); }

private:
  template <class Question>
  sched::SwapEnded ask(const Question& question) {
    self_->send(manager_, question);
    sched::SwapEnded out;
    self_->receive([&](const sched::SwapEnded& ended) { out = ended; },
                   caf::after(std::chrono::seconds{60}) >> [&] { out.reason = "no answer"; });
    EXPECT_EQ(out.question, question.question) << out.reason;
    return out;
  }

  caf::actor manager_;
  caf::scoped_actor self_;
  std::uint64_t question_ = 100;
};

/// Thread: any.
class EpochWatch {
public:
  explicit EpochWatch(PolicyEpoch first = PolicyEpoch{1}) : first_(first) {}

  void live(const sched::SetLive& live) {
    const std::lock_guard lock(mutex_);
    given_.insert(live.set.epoch);
  }

  void see(const std::string& stage, const sched::Effects& effects) {
    const std::lock_guard lock(mutex_);
    PolicyEpoch& now = now_.emplace(stage, first_).first->second;
    for (const sched::Effect& effect : effects.list()) {
      if (const auto* record = std::get_if<sched::Record>(&effect)) look_at(stage, *record, now);
      const auto* send = std::get_if<sched::Send>(&effect);
      if (send == nullptr || send->to != sched::Peer::manager) continue;
      if (const auto* told = std::get_if<sched::Committed>(&send->message)) now = told->epoch;
      if (const auto* told = std::get_if<sched::SetRequest>(&send->message)) now = told->epoch;
    }
  }

  std::int64_t decisions() const {
    const std::lock_guard lock(mutex_);
    return decisions_;
  }
  /// Decisions with an epoch that was not live on their stage; the first ones in words.
  std::int64_t wrong() const {
    const std::lock_guard lock(mutex_);
    return wrong_;
  }
  std::string first_wrong() const {
    const std::lock_guard lock(mutex_);
    return first_wrong_;
  }
  bool used(PolicyEpoch epoch) const {
    const std::lock_guard lock(mutex_);
    return used_.count(epoch) != 0;
  }
  /// Epochs by which something was decided.
  std::size_t epochs() const {
    const std::lock_guard lock(mutex_);
    return used_.size();
  }

private:
  void look_at(const std::string& stage, const sched::Record& record, PolicyEpoch now) {
    ++decisions_;
    used_.insert(record.epoch);
    PolicyEpoch asked = record.epoch;
    if (record.asked) {
      asked =
          std::visit([](const auto& one) { return one->question.context.epoch; }, *record.asked);
    }
    if (record.epoch == now && asked == now && given_.count(now) != 0) return;
    if (wrong_++ == 0) {
      first_wrong_ = stage + " decided " + record.kind + " by epoch " +
                     std::to_string(raw(record.epoch)) + " while " + std::to_string(raw(now)) +
                     " was live there";
    }
  }

  mutable std::mutex mutex_;
  PolicyEpoch first_;
  std::map<std::string, PolicyEpoch> now_;
  std::set<PolicyEpoch> given_, used_;
  std::int64_t decisions_ = 0, wrong_ = 0;
  std::string first_wrong_;
};

/// Policies of a kind that a set may name without options.
inline std::set<std::string> names_without_options(const sched::PolicyRegistry& registry,
                                                   const std::string& kind) {
  std::set<std::string> names;
  for (const std::string& name : registry.names(kind)) {
    if (registry.build(kind, sched::PolicySpec{name, {}}, {}).ok()) names.insert(name);
  }
  return names;
}

/// Sets that between them choose every built-in policy that needs no options.
inline std::vector<sched::PolicySet> sets_of_all_builtins() {
  sched::PolicyRegistry registry;
  sched::register_builtin_policies(registry);
  std::vector<sched::PolicySet> sets;
  std::map<std::string, std::vector<std::string>> names;
  std::size_t longest = 0;
  for (const std::string& kind : registry.kinds()) {
    const std::set<std::string> all = names_without_options(registry, kind);
    names[kind].assign(all.begin(), all.end());
    longest = std::max(longest, all.size());
  }
  for (std::size_t i = 0; i < longest; ++i) {
    sched::PolicySet set;
    set.name = "builtins " + std::to_string(i);
    set.probation.window_us = 0;
    for (const auto& [kind, all] : names)
      set.kinds[kind].policy = all[i % all.size()];
    sets.push_back(std::move(set));
  }
  return sets;
}

} // namespace troupe::test
