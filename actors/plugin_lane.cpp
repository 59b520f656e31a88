#include "actors/plugin_lane.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace troupe::actors {
namespace {

using Clock = std::chrono::steady_clock;

/// How long both sides look before they sleep: a wake-up takes longer than most calls.
constexpr std::int64_t kOwnerSpinUs = 50;
constexpr std::int64_t kLaneSpinUs = 20;

std::atomic<std::int64_t> live{0};
std::atomic<std::int64_t> left_behind{0};

std::int64_t now_us() noexcept {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
      .count();
}

void pause_briefly() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/// Looks until `ready` holds, at most `limit_us`. With one core looking only delays the other side.
template <class Ready>
bool spin(std::int64_t limit_us, const Ready& ready) noexcept {
  static const bool has_cores = std::thread::hardware_concurrency() > 1;
  if (!has_cores) return ready();
  const std::int64_t end_us = now_us() + limit_us;
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      pause_briefly();
    }
  } while (now_us() < end_us);
  return ready();
}

enum class Call : std::uint8_t { none, posted, running };

/// What owner and thread share; the thread keeps it as long as it needs.
struct Lane {
  explicit Lane(std::unique_ptr<sched::CallTarget> given) : target(std::move(given)) {}

  std::unique_ptr<sched::CallTarget> target; ///< Of the thread while call is not none.
  std::atomic<Call> call{Call::none};
  std::atomic<std::int64_t> began_us{0}; ///< Of the running call.
  std::atomic<bool> stops{false};
  std::atomic<bool> has_ended{false};
  std::atomic<bool> has_parted{false}; ///< One of the two has gone without the other.

  // Who sleeps says so first and then looks once more; who changes something looks for sleepers
  // after the change. The lock closes the gap between that look and the sleep.
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<int> sleepers{0};

  void wake() {
    if (sleepers.load() == 0) return;
    { const std::lock_guard lock(mutex); }
    changed.notify_all();
  }

  template <class Ready>
  bool sleep_until(std::int64_t until_us, const Ready& ready) {
    std::unique_lock lock(mutex);
    ++sleepers;
    const bool is_ready = changed.wait_until(
        lock, Clock::time_point(std::chrono::microseconds(until_us)), [&] { return ready(); });
    --sleepers;
    return is_ready;
  }

  /// For the thread: until there is a call, or nothing comes any more.
  void sleep_idle() {
    std::unique_lock lock(mutex);
    ++sleepers;
    changed.wait(lock, [this] { return is_wanted(); });
    --sleepers;
  }

  bool is_wanted() const { return call.load() == Call::posted || stops.load(); }
};

void run_lane(std::shared_ptr<Lane> lane) {
  for (;;) {
    if (!spin(kLaneSpinUs, [&] { return lane->is_wanted(); })) lane->sleep_idle();
    if (lane->call.load() != Call::posted) break; // It stops, and nothing is left to do.
    lane->began_us = now_us();
    lane->call = Call::running;
    lane->target->run();
    lane->call = Call::none;
    lane->wake();
  }
  lane->target->end();
  lane->has_ended = true;
  lane->wake();
  const bool was_left = lane->has_parted.exchange(true);
  // The library of a lane that was left behind goes with this.
  lane.reset();
  if (was_left) --left_behind;
}

class LaneRunner final : public sched::CallRunner {
public:
  LaneRunner(std::shared_ptr<Lane> lane, std::thread thread)
      : lane_(std::move(lane)), thread_(std::move(thread)) {
    ++live;
  }
  LaneRunner(const LaneRunner&) = delete;
  LaneRunner& operator=(const LaneRunner&) = delete;

  ~LaneRunner() override {
    --live;
    const bool was_idle = idle();
    lane_->stops = true;
    lane_->wake();
    const auto ended = [this] { return lane_->has_ended.load(); };
    if (was_idle && lane_->sleep_until(now_us() + kLaneEndMaxUs, ended)) {
      thread_.join();
      return;
    }
    leave();
  }

  sched::CallTarget& target() noexcept override { return *lane_->target; }
  bool idle() noexcept override { return lane_->call.load() == Call::none; }
  bool may_be_late() const noexcept override { return true; }

  sched::CallEnd run(std::int64_t limit_us) noexcept override {
    const std::int64_t posted_us = now_us();
    lane_->call = Call::posted;
    lane_->wake();
    const auto done = [this] { return lane_->call.load() == Call::none; };
    if (spin(std::min(limit_us, kOwnerSpinUs), done)) return sched::CallEnd::done;
    for (;;) {
      const std::int64_t now = now_us();
      const Call call = lane_->call.load();
      if (call == Call::none) return sched::CallEnd::done;
      // Nobody tells that a call begins: that is looked at once per limit.
      const std::int64_t end_us =
          call == Call::running ? lane_->began_us.load() + limit_us : posted_us + kLaneStartMaxUs;
      if (now >= end_us) return sched::CallEnd::late;
      const std::int64_t look_us = call == Call::running ? end_us : now + limit_us;
      if (lane_->sleep_until(std::min(end_us, look_us), done)) return sched::CallEnd::done;
    }
  }

private:
  /// Hands the lane to its thread, which counts itself out when it ends.
  void leave() {
    ++left_behind;
    if (lane_->has_parted.exchange(true)) --left_behind; // It has just ended.
    thread_.detach();
  }

  std::shared_ptr<Lane> lane_;
  std::thread thread_;
};

} // namespace

std::unique_ptr<sched::CallRunner> lane_runner(std::unique_ptr<sched::CallTarget> target) {
  auto lane = std::make_shared<Lane>(std::move(target));
  try {
    std::thread thread(run_lane, lane);
    return std::make_unique<LaneRunner>(std::move(lane), std::move(thread));
  } catch (const std::system_error&) {
    return nullptr;
  }
}

LaneCounts lane_counts() noexcept { return {live.load(), left_behind.load()}; }

} // namespace troupe::actors
