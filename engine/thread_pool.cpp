#include "engine/thread_pool.hpp"

namespace troupe::engine {

namespace {

constexpr int kSpins = 300; ///< Pauses before parking: about ten microseconds.

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

} // namespace

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) {
    workers_.emplace_back([this, i] { work(i); });
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  calls_.fetch_add(1);
  calls_.notify_all();
  for (std::thread& worker : workers_)
    worker.join();
}

void ThreadPool::take_tasks(int worker) {
  for (;;) {
    const std::int64_t i = next_.fetch_add(1);
    if (i >= job_.count) return;
    job_.call(job_.context, i, worker);
  }
}

void ThreadPool::run_erased(Job job) {
  if (workers_.empty() || job.count <= 1) {
    for (std::int64_t i = 0; i < job.count; ++i)
      job.call(job.context, i, 0);
    return;
  }
  job_ = job;
  next_.store(0);
  open_.store(true);
  calls_.fetch_add(1);
  calls_.notify_all();
  take_tasks(0);
  // A worker counts itself in before it looks at open_, so whoever saw it open is waited for.
  open_.store(false);
  for (int spins = 0;; ++spins) {
    const int inside = inside_.load();
    if (inside == 0) return;
    if (spins < kSpins) {
      pause_briefly();
    } else {
      inside_.wait(inside);
    }
  }
}

void ThreadPool::work(int worker) {
  std::uint32_t seen = 0;
  for (;;) {
    for (int spins = 0; calls_.load() == seen; ++spins) {
      if (spins < kSpins) {
        pause_briefly();
      } else {
        calls_.wait(seen);
      }
    }
    seen = calls_.load();
    if (stop_.load()) return;
    inside_.fetch_add(1);
    if (open_.load()) take_tasks(worker);
    if (inside_.fetch_sub(1) == 1) inside_.notify_one();
  }
}

} // namespace troupe::engine
