// Who runs the calls into a loaded policy: at once, or on a thread of its own with a deadline.
//
// A call that is late goes on; what it reads and writes therefore belongs to its runner.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace troupe::sched {

/// One instance of a loaded policy with everything its calls read and write.
class CallTarget {
public:
  virtual ~CallTarget() = default;
  /// Performs the call that was written into the target.
  virtual void run() noexcept = 0;
  /// The last call: gives the instance back to its library. Nothing is called after it.
  virtual void end() noexcept = 0;
};

enum class CallEnd : std::uint8_t {
  done,
  late, ///< It still runs.
};

/// Runs the calls of one target, one after the other. Thread: one owner, the stage.
class CallRunner {
public:
  /// Ends the target; one whose call does not return is left behind and ends when it does.
  virtual ~CallRunner() = default;

  /// @pre idle()
  virtual CallTarget& target() noexcept = 0;
  /// False while a late call still runs; the target is not to be touched then.
  virtual bool idle() noexcept = 0;
  /// Runs the target's call and waits for at most `limit_us`. @pre idle()
  virtual CallEnd run(std::int64_t limit_us) noexcept = 0;
  /// Whether a call may go on after run(): then the target holds copies of what it reads.
  virtual bool may_be_late() const noexcept = 0;
};

using RunnerMaker = std::function<std::unique_ptr<CallRunner>(std::unique_ptr<CallTarget>)>;

/// Calls run where they are made, without a deadline.
std::unique_ptr<CallRunner> direct_runner(std::unique_ptr<CallTarget> target);

} // namespace troupe::sched
