// The lane of an engine: order, exceptions, its end. Threads meet through promises; nothing is
// timed.

#include "actors/engine_lane.hpp"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {
namespace {

/// Tickets in the order in which they were told.
class Told {
public:
  EngineLane::Wake wake() {
    return [this](std::uint64_t ticket) {
      const std::lock_guard lock(mutex_);
      tickets_.push_back(ticket);
      changed_.notify_all();
    };
  }
  /// Waits for the n-th ticket, from 0.
  std::uint64_t at(std::size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return tickets_.size() > n; });
    return tickets_[n];
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint64_t> tickets_;
};

TEST(EngineLane, WithoutAThreadWorkIsDoneWhereItIsGiven) {
  EngineLane lane(std::make_shared<RankPulse>(), nullptr);
  std::string order;
  const auto step = lane.submit({true, [&] { order += "s"; }, [&] { order += "S"; }});
  lane.submit({false, [&] { order += "c"; }, [&] { order += "C"; }});
  EXPECT_EQ(order, "scC") << "a step is told later";
  lane.finish(step);
  EXPECT_EQ(order, "scCS");
  lane.finish(step);
  EXPECT_EQ(order, "scCS") << "once";
}

TEST(EngineLane, StepsRunInOrderAndCallsGoBeforeAStepThatWaits) {
  Told told;
  std::promise<void> begun;
  std::promise<void> go;
  std::string order;
  {
    EngineLane lane(std::make_shared<RankPulse>(), told.wake());
    const auto first = lane.submit({true,
                                    [&] {
                                      begun.set_value();
                                      go.get_future().wait();
                                      order += "1";
                                    },
                                    [] {}});
    begun.get_future().wait();
    const auto second = lane.submit({true, [&] { order += "2"; }, [] {}});
    const auto call = lane.submit({false, [&] { order += "c"; }, [] {}});
    go.set_value();
    EXPECT_EQ(told.at(0), first);
    EXPECT_EQ(told.at(1), call);
    EXPECT_EQ(told.at(2), second);
  }
  EXPECT_EQ(order, "1c2");
}

TEST(EngineLane, WhatAPieceThrowsIsThrownWhereItIsFinishedAndNothingRunsAfterIt) {
  Told told;
  bool ran = false;
  std::promise<void> go;
  {
    EngineLane lane(std::make_shared<RankPulse>(), told.wake());
    lane.submit({true,
                 [&] {
                   go.get_future().wait();
                   throw std::runtime_error("a drill");
                 },
                 [] { FAIL() << "there is no result"; }});
    lane.submit({true, [&] { ran = true; }, [] {}});
    go.set_value();
    try {
      lane.finish(told.at(0));
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "a drill");
    }
  }
  EXPECT_FALSE(ran);
}

TEST(EngineLane, CloseDropsWhatHasNotBegunAndSaysWhetherAPieceRuns) {
  Told told;
  std::promise<void> begun;
  std::promise<void> go;
  bool ran = false;
  const auto pulse = std::make_shared<RankPulse>();
  {
    EngineLane lane(pulse, told.wake());
    const auto first = lane.submit({true,
                                    [&] {
                                      begun.set_value();
                                      go.get_future().wait();
                                    },
                                    [] {}});
    lane.submit({true, [&] { ran = true; }, [] {}});
    begun.get_future().wait();
    EXPECT_EQ(pulse->lane() % 2, 1U) << "a piece is under way";
    EXPECT_EQ(pulse->actor(), 0U);
    EXPECT_TRUE(lane.close());
    go.set_value();
    EXPECT_EQ(told.at(0), first);
    EXPECT_FALSE(lane.close());
  }
  EXPECT_FALSE(ran);
  EXPECT_EQ(pulse->lane(), 2U);
}

// Idle is a stand-still while there is work; time without work is not.
TEST(EngineLane, StandsIdleOnlyWhileWorkWaits) {
  Told told;
  EngineLane lane(std::make_shared<RankPulse>(), told.wake());
  const auto one_step = [&](std::size_t n) {
    lane.submit({true, [] {}, [] {}});
    lane.finish(told.at(n));
  };
  lane.note_work(false);
  one_step(0);
  EXPECT_EQ(lane.idle_us(), 0);
  lane.note_work(false);
  one_step(1);
  EXPECT_EQ(lane.idle_us(), 0);
  lane.note_work(true);
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds{2}) {
  }
  one_step(2);
  EXPECT_GE(lane.last_idle_us(), 2000);
  EXPECT_EQ(lane.idle_us(), lane.last_idle_us());
}

} // namespace
} // namespace troupe::actors
