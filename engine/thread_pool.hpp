// A few threads that share the tasks of one call at a time: spin briefly, then park.
//
// Which thread runs a task is left open, so tasks must not depend on it: they write disjoint
// outputs, and that is what keeps results equal for any number of threads.

#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace troupe::engine {

/// Runs tasks on `threads` threads, the caller included.
///
///   Thread   run() by one caller at a time
///   Cost     waiting spins for some microseconds, then sleeps in the kernel
class ThreadPool {
public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const noexcept { return static_cast<int>(workers_.size()) + 1; }

  /// Calls task(i, worker) for every i in [0, count) and returns when all are done. `worker` is in
  /// [0, threads()) and no two tasks run on one worker at once.
  template <class Task>
  void run(std::int64_t count, Task&& task) {
    run_erased(Job{[](void* context, std::int64_t i, int worker) {
                     (*static_cast<std::remove_reference_t<Task>*>(context))(i, worker);
                   },
                   &task, count});
  }

private:
  struct Job {
    void (*call)(void*, std::int64_t, int) = nullptr;
    void* context = nullptr;
    std::int64_t count = 0;
  };

  void run_erased(Job job);
  void take_tasks(int worker);
  void work(int worker);

  Job job_;
  std::atomic<std::int64_t> next_{0};   ///< First task nobody has taken.
  std::atomic<std::uint32_t> calls_{0}; ///< Changes when there is something to look at.
  std::atomic<int> inside_{0};          ///< Workers that may be looking at job_.
  std::atomic<bool> open_{false};       ///< job_ may be joined.
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

} // namespace troupe::engine
