// The owner's side of one instance: puts calls to its runner and says how they ended.

#pragma once

#include "schedulers/plugin/plugin_instance.hpp"
#include "schedulers/plugin/plugin_policy.hpp"

#include <memory>
#include <string>
#include <utility>

namespace troupe::sched {

class PluginSeat {
public:
  /// @param instance  made with create(); @pre it is created
  PluginSeat(std::unique_ptr<CallRunner> runner, const PluginLimits& limits)
      : runner_(std::move(runner)), limits_(limits) {}

  /// Whether a call can be made now; false counts as a failed call. Forgets the last failure.
  bool begin() noexcept;
  /// Whether calls can outlive their caller, so that the instance must hold copies. @pre idle()
  bool copies() const noexcept { return runner_->may_be_late(); }
  bool idle() const noexcept { return runner_->idle(); }

  /// The instance, of the type that it was made as. @pre idle()
  template <class Instance>
  Instance& instance() const noexcept {
    return static_cast<Instance&>(runner_->target());
  }

  /// Puts the question that the instance holds. False: failure() says why. The draws of the call
  /// are taken from the generator of `ctx`. @pre begin()
  bool decide(const PolicyContext& ctx) noexcept;
  /// Takes `reason` over, or fails.
  bool explain(std::uint32_t reason, Reason& out) noexcept;
  /// The call counts as failed after all: `what` its answer did.
  bool refuse(std::string what) noexcept;

  /// Runs one other job of the instance. False when it is busy, late or threw.
  bool run(PluginJob job) noexcept;

  std::string export_state() noexcept;
  void import_state(const std::string& state) noexcept;

  const std::string& failure() const noexcept { return failure_; }
  const PluginCounts& counts() const noexcept { return counts_; }
  void lost_observation() noexcept { ++counts_.observations_lost; }

private:
  /// State up to so many bytes is exported along with each decision, for the ledger wants it then.
  static constexpr std::size_t kSmallState = 256;

  bool finish(PluginJob job) noexcept;

  std::unique_ptr<CallRunner> runner_;
  PluginLimits limits_;
  std::string failure_;
  PluginCounts counts_;
};

} // namespace troupe::sched
