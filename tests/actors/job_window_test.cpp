// The window of a batch job: bounded, interruptible, one ending per line.

#include "actors/job_window.hpp"

#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

TEST(JobWindow, RequestIdsRoundTripAndAreNeverZero) {
  for (const std::int64_t line : {0, 1, 17, 499'999}) {
    for (const std::int64_t choice : {0L, 1L, kChoicesPerLineMax - 1}) {
      const RequestId request = request_of(line, choice);
      EXPECT_NE(raw(request), 0U);
      EXPECT_EQ(line_of(request), line);
      EXPECT_EQ(choice_of(request), choice);
    }
  }
}

TEST(JobWindow, NeverHoldsMoreThanItsLimit) {
  JobWindow window(4);
  EXPECT_EQ(window.ask(), 4);
  EXPECT_EQ(window.ask(), 0); // One ask at a time.
  for (std::int64_t line = 0; line < 4; ++line)
    window.delivered(line);
  window.answered_ask(false);
  EXPECT_EQ(window.ask(), 0);
  EXPECT_EQ(window.in_flight(), 4);
  EXPECT_TRUE(window.answered(2));
  window.written(2);
  EXPECT_EQ(window.ask(), 1);
}

TEST(JobWindow, ALineIsDoneWhenItsAnswerIsDurable) {
  JobWindow window(2);
  window.ask();
  window.delivered(0);
  window.answered_ask(true);
  EXPECT_TRUE(window.rendered(0, 2));
  RequestId request{};
  ASSERT_TRUE(window.next_request(request));
  EXPECT_EQ(request, request_of(0, 0));
  ASSERT_TRUE(window.next_request(request));
  EXPECT_EQ(request, request_of(0, 1));
  EXPECT_FALSE(window.next_request(request));
  EXPECT_TRUE(window.answered(0));
  EXPECT_FALSE(window.drained());
  window.written(0);
  EXPECT_TRUE(window.drained());
  EXPECT_TRUE(window.complete());
}

TEST(JobWindow, AwaitsTheStoreWhenNothingElseCanHappen) {
  JobWindow window(2);
  EXPECT_FALSE(window.awaits_store()) << "it holds nothing";
  window.ask();
  window.delivered(0);
  EXPECT_TRUE(window.answered(0));
  EXPECT_FALSE(window.awaits_store()) << "more lines may come";
  window.delivered(1);
  window.answered_ask(false);
  EXPECT_FALSE(window.awaits_store()) << "line 1 has no answer yet";
  EXPECT_TRUE(window.answered(1));
  EXPECT_TRUE(window.awaits_store()) << "and there is no room to ask for more";
  window.written(0);
  window.written(1);
  EXPECT_FALSE(window.awaits_store());
}

TEST(JobWindow, InterruptSendsBackWhatHasNoToken) {
  JobWindow window(3);
  window.ask();
  for (std::int64_t line = 0; line < 3; ++line) {
    window.delivered(line);
    window.rendered(line, 1);
  }
  window.answered_ask(false);
  RequestId request{};
  while (window.next_request(request)) {
  }
  window.decoding(request_of(1, 0));
  EXPECT_TRUE(window.answered(2));
  EXPECT_EQ(window.interrupt(), (std::vector<std::int64_t>{0}));
  window.written(0); // The driver drops it.
  EXPECT_EQ(window.ask(), 0);
  EXPECT_FALSE(window.answered(0));
  EXPECT_EQ(window.stop_all(), (std::vector<std::int64_t>{1}));
  window.written(1);
  window.written(2);
  EXPECT_TRUE(window.drained());
  EXPECT_FALSE(window.complete());
}

TEST(JobWindow, LinesThatComeAfterAnInterruptGoBack) {
  JobWindow window(2);
  window.ask();
  window.interrupt();
  window.delivered(0);
  EXPECT_FALSE(window.contains(0));
  window.answered_ask(true);
  EXPECT_TRUE(window.drained());
  EXPECT_FALSE(window.complete());
}

TEST(JobWindow, RequestsOfALineThatWentBackAreSkipped) {
  JobWindow window(2);
  window.ask();
  window.delivered(0);
  window.delivered(1);
  window.answered_ask(false);
  window.rendered(0, 1);
  window.rendered(1, 1);
  window.written(0);
  RequestId request{};
  ASSERT_TRUE(window.next_request(request));
  EXPECT_EQ(request, request_of(1, 0));
}

} // namespace
} // namespace troupe::actors
