// Quantiles of the last answers of a class, exact for the window.

#include "schedulers/model/answer_lengths.hpp"

#include <gtest/gtest.h>

namespace troupe::sched {
namespace {

TEST(AnswerLengths, KnowsNothingBeforeTheFewest) {
  AnswerLengths lengths;
  for (std::size_t i = 0; i + 1 < AnswerLengths::kFewest; ++i) {
    lengths.add(100, 5);
    EXPECT_EQ(lengths.quantile(100, 900), 0);
  }
  lengths.add(100, 5);
  EXPECT_EQ(lengths.quantile(100, 900), 5);
}

TEST(AnswerLengths, QuantilesOfTheClassOnly) {
  AnswerLengths lengths;
  for (std::int64_t n = 1; n <= 100; ++n)
    lengths.add(127, n);
  EXPECT_EQ(lengths.quantile(64, 500), 50) << "64 to 127 are one class";
  EXPECT_EQ(lengths.quantile(127, 900), 90);
  EXPECT_EQ(lengths.quantile(127, 1000), 100);
  EXPECT_EQ(lengths.quantile(127, 0), 1);
  EXPECT_EQ(lengths.quantile(128, 900), 0) << "another class";
  EXPECT_EQ(lengths.quantile(63, 900), 0);
}

TEST(AnswerLengths, OldAnswersAreForgotten) {
  AnswerLengths lengths;
  for (std::size_t i = 0; i < AnswerLengths::kWindow; ++i)
    lengths.add(1000, 900);
  for (std::size_t i = 0; i < AnswerLengths::kWindow / 2; ++i)
    lengths.add(1000, 10);
  EXPECT_EQ(lengths.quantile(1000, 500), 10);
  EXPECT_EQ(lengths.quantile(1000, 510), 900);
}

} // namespace
} // namespace troupe::sched
