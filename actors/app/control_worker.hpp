// Work of the control socket that may take seconds, on a thread of its own: a policy file that
// names a library is only read once the library was looked at in a child process.

#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace troupe::app {

/// Runs what it is given, one after the other.
///
///   Thread   any
class ControlWorker {
public:
  using Work = std::function<void()>;

  ControlWorker() : thread_([this] { run(); }) {}
  /// Waits for the work that runs; the rest is dropped.
  ~ControlWorker();
  ControlWorker(const ControlWorker&) = delete;
  ControlWorker& operator=(const ControlWorker&) = delete;

  void add(Work work);

private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_; ///< At most one a client: nothing more is read before its answer.
  bool stops_ = false;
  std::thread thread_;
};

} // namespace troupe::app
