// What the stages of a process counted, published by their shells for whoever asks.
//
// A stage counts for itself, in plain integers of one owner; its shell copies them here after each
// event, so that another thread can read them at any time.

#pragma once

#include "schedulers/stage/effects.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace troupe::actors {

/// How often one policy decided for one reason.
struct DecisionCount {
  std::string kind;
  std::string policy;
  sched::Reason reason = sched::Reason::unset;
  std::int64_t count = 0;
};

/// A decision as a person may want to see it while it is fresh.
struct RecentDecision {
  std::string stage;
  std::string kind;
  std::string policy;
  sched::Reason reason = sched::Reason::unset;
  PolicyEpoch epoch{};
  RequestRef ref; ///< Zero for decisions about many.
  RankRef rank;   ///< Chosen, or the rank a step or pack is for.
  std::int64_t value = 0;
};

/// What a shell has published of its stage so far.
struct StagePublished {
  std::int64_t stale_dropped = 0;
  std::int64_t invalid_decisions = 0;
  std::int64_t retried = 0;
};

/// Totals of all stages that had one name: a replaced rank goes on counting. Thread: any.
class StageTotals {
public:
  std::atomic<std::int64_t> waiting{0}; ///< Requests in its queue, where it has one.
  std::atomic<std::int64_t> stale_dropped{0};
  std::atomic<std::int64_t> invalid_decisions{0};
  std::atomic<std::int64_t> retried{0}; ///< Attempts, transfers: what was tried again.

  /// Adds what these counters of a stage gained since `before`, and keeps them there.
  template <class Counts>
  void publish(const Counts& counts, StagePublished& before) {
    gain(counts.stale_dropped, before.stale_dropped, stale_dropped);
    if constexpr (requires { counts.invalid_decisions; }) {
      gain(counts.invalid_decisions, before.invalid_decisions, invalid_decisions);
    }
    if constexpr (requires { counts.retried; }) gain(counts.retried, before.retried, retried);
    if constexpr (requires { counts.waiting; }) waiting = counts.waiting;
  }

  /// Counts the decisions among `effects`.
  void count_decisions(const sched::Effects& effects);
  std::vector<DecisionCount> decisions() const;
  /// The last few, oldest first; `stage` is empty.
  std::vector<RecentDecision> recent() const;

private:
  static constexpr std::size_t kRecent = 4;

  static void gain(std::int64_t now, std::int64_t& before, std::atomic<std::int64_t>& total) {
    if (now == before) return;
    total += now - before;
    before = now;
  }

  mutable std::mutex mutex_; ///< Of decisions_: a reader comes once in seconds.
  std::map<std::tuple<std::string, std::string, sched::Reason>, std::int64_t> decisions_;
  std::array<RecentDecision, kRecent> recent_;
  std::size_t recent_next_ = 0;
};

/// One entry a stage, made when its name is first asked for. Thread: any.
class StageTable {
public:
  std::shared_ptr<StageTotals> of(const std::string& stage);
  std::map<std::string, std::shared_ptr<StageTotals>> all() const;
  /// The last decisions of every stage, by stage.
  std::vector<RecentDecision> recent() const;

private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<StageTotals>> stages_;
};

} // namespace troupe::actors
