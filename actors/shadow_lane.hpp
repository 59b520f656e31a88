// Asks shadow policies what the live ones were asked, on a thread of its own: they decide, and
// nothing they say counts.

#pragma once

#include "actors/manager_facts.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/stage/effects.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace troupe::actors {

/// Questions go through a bounded queue; those that find it full are dropped and counted.
///
/// Each stage has a shadow of its own, as it has a policy of its own. A shadow of the live policy's
/// name begins at the first question that carries state, and again after every gap; one of another
/// name begins at once. What a canary answered is not asked: the live policy was not asked either.
///
///   Thread   any; `offer` holds a lock for a moment and never waits for a policy
class ShadowLane {
public:
  /// Questions that may wait. Each keeps the views it was asked with.
  static constexpr std::size_t kQueueMax = 256;

  /// @param facts  hears the totals; never null
  ShadowLane(std::shared_ptr<const sched::PolicyRegistry> registry,
             std::shared_ptr<ManagerFacts> facts, std::size_t queue_max = kQueueMax);
  ~ShadowLane();
  ShadowLane(const ShadowLane&) = delete;
  ShadowLane& operator=(const ShadowLane&) = delete;

  /// The shadows of this set are asked from here on. @pre no stage decides by it yet
  void use(const sched::PolicySet& set);

  /// What a stage said in one event, in its order.
  void offer(const std::string& stage, const sched::Effects& effects);

  /// Waits until everything that was offered is asked; false after `at_most`.
  bool drain(std::chrono::milliseconds at_most);

  /// Ends the thread after the question it is at. False when a policy does not return within
  /// `at_most`: its thread is then left alone.
  bool stop(std::chrono::milliseconds at_most);

private:
  struct Shared;
  class Seats;

  static void work(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;
};

} // namespace troupe::actors
