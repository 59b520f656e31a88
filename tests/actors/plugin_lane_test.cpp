// Calls on a lane: in time, late, never; what is left behind and what is not. Nothing depends on
// how fast the machine is: what is late waits for the test.

#include "actors/plugin_lane.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace troupe::actors {
namespace {

constexpr std::int64_t kLongUs = 60'000'000;

/// What a test sees of a target, also when its lane was left behind.
struct Watched {
  std::mutex mutex;
  std::condition_variable changed;
  int runs = 0;
  int ends = 0;
  int gone = 0;
  bool gate_open = false;
  std::thread::id thread;

  template <class Ready>
  bool wait(const Ready& ready) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(60), ready);
  }
  void open_gate() {
    const std::lock_guard lock(mutex);
    gate_open = true;
    changed.notify_all();
  }
};

class Target final : public sched::CallTarget {
public:
  explicit Target(Watched& watched) : watched_(watched) {}
  ~Target() override { count(watched_.gone); }
  void run() noexcept override {
    if (waits) watched_.wait([this] { return watched_.gate_open; });
    watched_.thread = std::this_thread::get_id();
    count(watched_.runs);
  }
  void end() noexcept override {
    if (end_waits) watched_.wait([this] { return watched_.gate_open; });
    count(watched_.ends);
  }
  bool waits = false;
  bool end_waits = false;

private:
  void count(int& what) {
    const std::lock_guard lock(watched_.mutex);
    ++what;
    watched_.changed.notify_all();
  }
  Watched& watched_;
};

Target& target_of(sched::CallRunner& lane) { return static_cast<Target&>(lane.target()); }

void wait_for_counts(std::int64_t left_behind) {
  for (int i = 0; i < 60'000 && lane_counts().left_behind != left_behind; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(lane_counts().left_behind, left_behind);
}

TEST(PluginLane, CallsRunInOrderOnOneOtherThread) {
  Watched watched;
  {
    const auto lane = lane_runner(std::make_unique<Target>(watched));
    ASSERT_NE(lane, nullptr);
    EXPECT_TRUE(lane->may_be_late());
    EXPECT_EQ(lane_counts().live, 1);
    std::thread::id first;
    for (int i = 1; i <= 1000; ++i) {
      ASSERT_EQ(lane->run(kLongUs), sched::CallEnd::done);
      ASSERT_EQ(watched.runs, i);
      ASSERT_TRUE(lane->idle());
      if (i == 1) first = watched.thread;
      ASSERT_EQ(watched.thread, first);
      if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1)); // It sleeps.
    }
    EXPECT_NE(first, std::this_thread::get_id());
  }
  EXPECT_EQ(watched.ends, 1);
  EXPECT_EQ(watched.gone, 1);
  EXPECT_EQ(lane_counts().live, 0);
  EXPECT_EQ(lane_counts().left_behind, 0);
}

TEST(PluginLane, ALateCallGoesOnAndThenTheNextOneIsTaken) {
  Watched watched;
  const auto lane = lane_runner(std::make_unique<Target>(watched));
  target_of(*lane).waits = true;
  EXPECT_EQ(lane->run(1000), sched::CallEnd::late);
  EXPECT_FALSE(lane->idle());
  EXPECT_EQ(watched.runs, 0);
  watched.open_gate();
  ASSERT_TRUE(watched.wait([&] { return watched.runs == 1; }));
  while (!lane->idle())
    std::this_thread::yield();
  EXPECT_EQ(lane->run(kLongUs), sched::CallEnd::done);
  EXPECT_EQ(watched.runs, 2);
}

TEST(PluginLane, OneThatDoesNotReturnIsLeftBehindAndEndsWithItsCall) {
  Watched watched;
  auto lane = lane_runner(std::make_unique<Target>(watched));
  target_of(*lane).waits = true;
  EXPECT_EQ(lane->run(1000), sched::CallEnd::late);
  lane.reset(); // Does not wait for the call.
  EXPECT_EQ(lane_counts().live, 0);
  EXPECT_EQ(lane_counts().left_behind, 1);
  EXPECT_EQ(watched.gone, 0) << "the thread still uses it";
  watched.open_gate();
  wait_for_counts(0);
  EXPECT_EQ(watched.runs, 1);
  EXPECT_EQ(watched.ends, 1);
  EXPECT_EQ(watched.gone, 1);
}

TEST(PluginLane, AnEndThatHangsIsLeftBehindToo) {
  Watched watched;
  auto lane = lane_runner(std::make_unique<Target>(watched));
  target_of(*lane).end_waits = true;
  lane.reset();
  EXPECT_EQ(lane_counts().left_behind, 1);
  watched.open_gate();
  wait_for_counts(0);
  EXPECT_EQ(watched.gone, 1);
}

// Reported, not asserted: a busy machine is not a fault of the code.
TEST(PluginLane, HandOverTakes) {
  Watched watched;
  const auto lane = lane_runner(std::make_unique<Target>(watched));
  for (const int pause_us : {0, 200}) {
    std::vector<std::int64_t> taken_ns;
    for (int i = 0; i < 2000; ++i) {
      if (pause_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
      const auto begin = std::chrono::steady_clock::now();
      ASSERT_EQ(lane->run(kLongUs), sched::CallEnd::done);
      taken_ns.push_back((std::chrono::steady_clock::now() - begin).count());
    }
    std::sort(taken_ns.begin(), taken_ns.end());
    std::printf("hand-over there and back, %d us after the last: median %.1f us, p99 %.1f us\n",
                pause_us, static_cast<double>(taken_ns[1000]) / 1000.0,
                static_cast<double>(taken_ns[1980]) / 1000.0);
  }
}

} // namespace
} // namespace troupe::actors
