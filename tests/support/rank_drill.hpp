// One planned death of a rank in a running system, at a named point of a request's life.
//
// A point is an event that a stage is about to handle, or a call of an engine. At its n-th
// occurrence the victim throws in its own thread, is killed from outside, or hangs.

#pragma once

#include "actors/app/local_system.hpp"
#include "tests/support/faulty_engine.hpp"
#include "tests/support/live_system.hpp"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <ostream>
#include <string>

namespace troupe::test {

/// What happens to the victim.
enum class Death : std::uint8_t {
  throws, ///< In its own thread, where the point is.
  killed, ///< From outside; the point waits until it is dead.
  hangs,  ///< In its own thread, until the drill is over.
};

struct DeathPoint {
  std::string name;
  std::string victim; ///< "prefill-0"
  Death death = Death::throws;
  /// The stage and event of the point, or, when empty, the engine call below.
  std::string stage;
  std::function<bool(const sched::Event&)> event;
  std::string engine; ///< Rank whose engine is called.
  EngineCall call = EngineCall::step;
  std::function<bool(const engine::StepPlan*)> plan; ///< May be empty: any.
  int occurrence = 1;
};

std::ostream& operator<<(std::ostream& out, const DeathPoint& point);

class RankDrill {
public:
  explicit RankDrill(DeathPoint point) : point_(std::move(point)) {}
  /// Ends a hang and waits for its end.
  ~RankDrill();

  /// Hooks into a run; the drill must outlive it.
  LiveOptions options();

  bool fired() const noexcept { return fired_; }
  /// Lets a hanging victim return.
  void release();
  /// Keeps a hang for as long as the drill lives, instead of a moment beyond its abandonment.
  void keep_hanging() noexcept { keeps_ = true; }

private:
  void wait_for_death();
  bool is_due();
  void strike();
  void kill_and_wait();
  void hang();
  void on_event(const std::string& stage, const sched::Event& event);
  void on_call(const std::string& rank, RankRef life, EngineCall call,
               const engine::StepPlan* plan);

  DeathPoint point_;
  std::atomic<app::LocalSystem*> system_{nullptr};
  std::atomic<int> seen_{0};
  std::atomic<bool> fired_{false};
  std::atomic<bool> victim_closed_{false};
  std::atomic<bool> keeps_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool released_ = false;
};

} // namespace troupe::test
