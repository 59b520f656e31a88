#include "actors/app/control_worker.hpp"

#include <utility>

namespace troupe::app {

ControlWorker::~ControlWorker() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    queue_.clear();
  }
  changed_.notify_one();
  thread_.join();
}

void ControlWorker::add(Work work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void ControlWorker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stops_ || !queue_.empty(); });
    if (stops_) return;
    const Work work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

} // namespace troupe::app
