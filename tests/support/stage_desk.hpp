// A control desk over a real ManagerStage: its stages build every set, and one may refuse or be
// silent.

#pragma once

#include "actors/app/control_desk.hpp"
#include "schedulers/registry/policy_registry.hpp"

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>

namespace troupe::test {

/// Stages answer at once, on the thread of whoever asks. Thread: any.
class StageDesk final : public app::ControlDesk {
public:
  explicit StageDesk(std::shared_ptr<const sched::PolicyRegistry> registry,
                     sched::PolicySet first = {})
      : registry_(std::move(registry)), stage_({}, std::move(first), 0) {
    sched::Effects effects;
    stage_.start(0, effects);
  }

  Ended ask(sched::SwapAsked asked) override { return put(std::move(asked)); }
  Ended ask(sched::RollbackAsked asked) override { return put(std::move(asked)); }
  Ended ask(sched::PromoteAsked asked) override { return put(std::move(asked)); }

  actors::ManagerView view() const override {
    const std::lock_guard lock(mutex_);
    actors::ManagerView view;
    view.live = stage_.live();
    view.probation = stage_.on_probation();
    view.history = stage_.history();
    view.faults = stage_.faults();
    view.shadow = shadow;
    view.canary_decisions = 17;
    return view;
  }
  std::string top() const override { return R"({"at_us":1})"; }
  app::LedgerReply write_ledger() override {
    return [place = ledger, looks = ledger_looks]() mutable -> std::optional<app::LedgerPlace> {
      if (looks-- > 0) return std::nullopt;
      return place;
    };
  }

  app::LedgerPlace ledger; ///< Set before it serves, as the next one.
  int ledger_looks = 0;    ///< So often it is not written yet.

  /// A set with this word in its text is refused by the decode stage.
  std::string refused_word = "refuse me";
  /// Every stage is silent: nothing ends.
  void be_silent(bool silent) {
    const std::lock_guard lock(mutex_);
    silent_ = silent;
  }
  std::map<std::string, actors::ShadowTotals> shadow;

  std::int64_t swaps() const {
    const std::lock_guard lock(mutex_);
    return swaps_;
  }

private:
  template <class Asked>
  Ended put(Asked asked) {
    const std::lock_guard lock(mutex_);
    asked.question = ++last_;
    Ended ended = promises_[last_].get_future();
    sched::Effects effects;
    stage_.on(asked, ++now_us_, effects);
    ++swaps_;
    run(effects);
    for (const sched::SwapEnded& one : stage_.take_ended()) {
      promises_[one.question].set_value(one);
      promises_.erase(one.question);
    }
    return ended;
  }

  /// Lets the stages answer until nothing is left to do.
  void run(sched::Effects& first) {
    std::deque<sched::Send> sent;
    const auto take = [&](sched::Effects& effects) {
      for (sched::Effect& effect : effects.list()) {
        if (auto* send = std::get_if<sched::Send>(&effect)) sent.push_back(std::move(*send));
      }
    };
    for (take(first); !sent.empty() && !silent_; sent.pop_front()) {
      const sched::StageRef stage{sent.front().to == sched::Peer::driver ? sched::StageKind::driver
                                  : sent.front().to == sched::Peer::chunker
                                      ? sched::StageKind::prefill
                                      : sched::StageKind::decode,
                                  {}};
      sched::Effects effects;
      if (const auto* prepare = std::get_if<sched::SwapPrepare>(&sent.front().message)) {
        stage_.on(answer(stage, prepare->set), ++now_us_, effects);
      } else if (const auto* commit = std::get_if<sched::SwapCommit>(&sent.front().message)) {
        stage_.on(sched::Committed{stage, commit->epoch}, ++now_us_, effects);
      }
      take(effects);
    }
  }

  sched::Prepared answer(const sched::StageRef& stage, const sched::PolicySet& set) const {
    sched::Prepared out{stage, set.epoch, true, {}};
    const Status good = registry_->check(set);
    if (!good.ok()) {
      out.ok = false;
      out.reason = good.error().message;
    }
    if (stage.kind == sched::StageKind::decode &&
        set.text.find(refused_word) != std::string::npos) {
      out.ok = false;
      out.reason = "decode_balancer: a test wants it so";
    }
    return out;
  }

  std::shared_ptr<const sched::PolicyRegistry> registry_;
  mutable std::mutex mutex_;
  sched::ManagerStage stage_;
  std::map<std::uint64_t, std::promise<sched::SwapEnded>> promises_;
  std::uint64_t last_ = 0;
  std::int64_t now_us_ = 0;
  std::int64_t swaps_ = 0;
  bool silent_ = false;
};

} // namespace troupe::test
