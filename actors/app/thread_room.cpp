#include "actors/app/thread_room.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <vector>

namespace troupe::app {

namespace {

constexpr std::int64_t kOwnThreads = 12; ///< Text, journal, clock, network layer, and some spare.

struct Gate {
  std::mutex mutex;
  std::condition_variable opened;
  bool is_open = false;
};

void* wait_at(void* given) {
  auto& gate = *static_cast<Gate*>(given);
  void* own = std::malloc(1024); // The first one of a thread may take an arena.
  std::unique_lock lock(gate.mutex);
  gate.opened.wait(lock, [&gate] { return gate.is_open; });
  std::free(own);
  return nullptr;
}

} // namespace

std::int64_t threads_needed(const SystemConfig& config) {
  std::int64_t count = kOwnThreads + std::max(1U, std::thread::hardware_concurrency());
  // A rank has its actor; one that computes also its engine's threads, the lane among them.
  for (const RankGroupConfig& group : config.ranks)
    count += group.count * (1 + (group.device == "null" ? 0 : group.threads));
  return count;
}

Status check_thread_room(std::int64_t count) {
  Gate gate;
  std::vector<pthread_t> threads;
  int code = 0;
  while (code == 0 && static_cast<std::int64_t>(threads.size()) < count) {
    pthread_t thread{};
    code = ::pthread_create(&thread, nullptr, wait_at, &gate);
    if (code == 0) threads.push_back(thread);
  }
  {
    const std::lock_guard lock(gate.mutex);
    gate.is_open = true;
  }
  gate.opened.notify_all();
  for (const pthread_t thread : threads)
    ::pthread_join(thread, nullptr);
  if (code == 0) return {};
  return {ErrorCode::io_error,
          fmt::format("found room for {} threads, expected {}: {}; raise the limit of processes "
                      "(ulimit -u) or of memory (ulimit -v), or take fewer ranks and threads",
                      threads.size(), count, std::strerror(code))};
}

} // namespace troupe::app
