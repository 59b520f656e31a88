// Work in a process of its own: how it ended is told, whatever ended it.

#include "actors/app/guarded_work.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <unistd.h>

namespace troupe::app {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{60'000};

WorkEnd ended(const std::function<void(WorkLine&)>& work, milliseconds silent_max = kLong) {
  auto end = do_guarded(work, silent_max);
  EXPECT_TRUE(end.ok());
  return end.ok() ? *end : WorkEnd{};
}

TEST(GuardedWork, FinishesWithItsExitCode) {
  for (const int code : {0, 3, 130}) {
    const WorkEnd end = ended([&](WorkLine& line) { line.finish(code); });
    EXPECT_TRUE(end.finished);
    EXPECT_EQ(end.exit_code, code);
    EXPECT_EQ(end.what, "");
  }
}

TEST(GuardedWork, IsNotFinishedWhenSomebodyEndsTheProcess) {
  const WorkEnd end = ended([](WorkLine& line) {
    line.suspect("a.so");
    line.suspect("b\n.so");
    ::_exit(0);
  });
  EXPECT_FALSE(end.finished);
  EXPECT_EQ(end.what, "somebody in the process ended it with exit code 0");
  EXPECT_EQ(end.suspects, (std::vector<std::string>{"a.so", "b .so"}));
}

TEST(GuardedWork, ASignalIsNamed) {
  const WorkEnd end = ended([](WorkLine&) { ::raise(SIGKILL); });
  EXPECT_FALSE(end.finished);
  EXPECT_EQ(end.what, "the process was ended by SIGKILL");
}

TEST(GuardedWork, SilenceIsEndedAndBeatsAreNoSilence) {
  const WorkEnd silent =
      ended([](WorkLine&) { std::this_thread::sleep_for(kLong); }, milliseconds(300));
  EXPECT_FALSE(silent.finished);
  EXPECT_NE(silent.what.find("nothing was heard of it"), std::string::npos) << silent.what;
  const WorkEnd stopped = ended([](WorkLine&) { ::raise(SIGSTOP); }, milliseconds(300));
  EXPECT_FALSE(stopped.finished);
  const WorkEnd closed = ended(
      [](WorkLine&) {
        for (int file = 3; file < 64; ++file)
          ::close(file);
        std::this_thread::sleep_for(kLong);
      },
      milliseconds(300));
  EXPECT_FALSE(closed.finished) << "somebody closed its line";
  const WorkEnd busy = ended(
      [](WorkLine& line) {
        for (int i = 0; i < 25; ++i) {
          std::this_thread::sleep_for(milliseconds(100));
          line.beat();
        }
        line.finish(0);
      },
      milliseconds(1800));
  EXPECT_TRUE(busy.finished) << busy.what;
}

TEST(GuardedWork, ThoseItLeftBehindHoldNobodyUp) {
  const WorkEnd end = ended([](WorkLine& line) {
    if (::fork() == 0) {
      std::this_thread::sleep_for(milliseconds(1500));
      ::_exit(0);
    }
    line.finish(3);
  });
  EXPECT_TRUE(end.finished);
  EXPECT_EQ(end.exit_code, 3);
}

} // namespace
} // namespace troupe::app
