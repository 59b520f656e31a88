// Segments by the hour in which they end: policies.md section 7.2.

#include "schedulers/kv/segment_book.hpp"
#include "schedulers/kv/unit_chain.hpp"

#include <gtest/gtest.h>

#include <cstdio>

namespace troupe::sched {
namespace {

constexpr std::int64_t kHourUs = 3'600'000'000;
constexpr std::int64_t kDayUs = 24 * kHourUs;

//   hour     0        1        2
//   chat     a a      b
//   agent             c
TEST(SegmentBook, UnitsOfOneClassAndHourLieTogether) {
  SegmentBook book({.segment_bytes = 100});
  const SegmentId a = book.append(RetentionClass::chat, 40, 5);
  EXPECT_EQ(book.append(RetentionClass::chat, 40, kHourUs - 1), a);
  const SegmentId b = book.append(RetentionClass::chat, 40, kHourUs);
  const SegmentId c = book.append(RetentionClass::agent, 40, kHourUs);
  EXPECT_NE(a, b);
  EXPECT_NE(b, c);
  EXPECT_EQ(book.segments(), 3);
  EXPECT_EQ(book.bytes(), 160);
  EXPECT_TRUE(book.drop_ended(kHourUs - 1).empty()) << "its last unit ends with the hour";
  EXPECT_EQ(book.drop_ended(kHourUs), std::vector<SegmentId>{a});
  EXPECT_EQ(book.bytes(), 80);
  EXPECT_EQ(book.drop_ended(5 * kHourUs), (std::vector<SegmentId>{b, c}));
  EXPECT_EQ(book.bytes(), 0);
  EXPECT_EQ(book.segments(), 0);
}

TEST(SegmentBook, AFullSegmentTakesNoMoreAndALargeUnitHasItsOwn) {
  SegmentBook book({.segment_bytes = 100});
  const SegmentId first = book.append(RetentionClass::chat, 60, 0);
  EXPECT_EQ(book.append(RetentionClass::chat, 40, 0), first) << "full to the last byte";
  const SegmentId second = book.append(RetentionClass::chat, 1, 0);
  EXPECT_NE(second, first);
  const SegmentId large = book.append(RetentionClass::chat, 1000, 0);
  EXPECT_NE(book.append(RetentionClass::chat, 1, 0), large);
  EXPECT_EQ(book.drop_ended(kHourUs).size(), 4U);
}

TEST(SegmentBook, ABudgetOfBytesDropsWhatEndsFirst) {
  SegmentBook book({.segment_bytes = 100, .bytes_max = 250});
  const SegmentId late = book.append(RetentionClass::chat, 100, 9 * kHourUs);
  const SegmentId soon = book.append(RetentionClass::agent, 100, 2 * kHourUs);
  EXPECT_TRUE(book.drop_for(50).empty());
  EXPECT_EQ(book.drop_for(51), std::vector<SegmentId>{soon});
  EXPECT_TRUE(book.drop_for(150).empty());
  EXPECT_EQ(book.drop_for(151), std::vector<SegmentId>{late});
  EXPECT_TRUE(book.drop_for(1'000).empty()) << "nothing is left to drop";
  SegmentBook open({.segment_bytes = 100});
  open.append(RetentionClass::chat, 100, 0);
  EXPECT_TRUE(open.drop_for(1'000'000).empty()) << "no limit";
}

TEST(SegmentBook, CopiesOnlyWhatHasLittleTimeLeft) {
  const SegmentBook book({});
  EXPECT_FALSE(book.worth_copying(0, kDayUs, 4 * kDayUs)) << "a quarter is left";
  EXPECT_TRUE(book.worth_copying(1, kDayUs, 4 * kDayUs));
  EXPECT_TRUE(book.worth_copying(2 * kDayUs, kDayUs, 4 * kDayUs)) << "its time is over";
  EXPECT_FALSE(book.worth_copying(0, 4 * kDayUs, 4 * kDayUs));
}

// A store of 6.3 PB of new KV a day: 320 thousand deletes a second by unit, 1.1 thousand by
// segment. One ten-thousandth of a day is written and dropped.
TEST(SegmentBook, GarbageOfALargeStoreIsAThousandOperationsASecond) {
  constexpr std::int64_t kShare = 10'000;
  constexpr std::int64_t kDayBytes = 6'300'000'000'000'000;
  constexpr std::int64_t kUnits = kDayBytes / kShare / kUnitBytes;
  SegmentBook book({});
  for (std::int64_t unit = 0; unit < kUnits; ++unit)
    book.append(RetentionClass::chat, kUnitBytes, unit * kDayUs / kUnits);
  EXPECT_EQ(book.bytes(), kUnits * kUnitBytes);
  const auto drops = static_cast<double>(book.drop_ended(2 * kDayUs).size());
  const double seconds = 86'400.0 / kShare;
  std::printf("%.0f units and %.0f segments a second\n", kUnits / seconds, drops / seconds);
  EXPECT_NEAR(kUnits / seconds, 320'000, 500);
  EXPECT_NEAR(drops / seconds, 1'100, 50);
  EXPECT_LE(drops / seconds, 2'000 * 6.3 / 6) << "2,000 for 6 PB a day";
  EXPECT_EQ(book.segments(), 0);
}

} // namespace
} // namespace troupe::sched
