// The short way to values of a map: what it finds is what was kept last, and no more.

#include "schedulers/core/recent.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace troupe {
namespace {

RequestRef ref(std::uint64_t request, std::uint32_t attempt = 1) {
  return {RequestId{request}, Attempt{attempt}};
}

TEST(Recent, FindsWhatWasKeptUntilItIsForgotten) {
  Recent<int> recent;
  int a = 1;
  EXPECT_EQ(recent.find(ref(7)), nullptr);
  recent.keep(ref(7), &a);
  EXPECT_EQ(recent.find(ref(7)), &a);
  EXPECT_EQ(recent.find(ref(7, 2)), nullptr) << "another attempt";
  recent.forget(ref(7, 2));
  EXPECT_EQ(recent.find(ref(7)), &a);
  recent.forget(ref(7));
  EXPECT_EQ(recent.find(ref(7)), nullptr);
}

TEST(Recent, OfTwoThatMeetTheLaterOneStays) {
  Recent<int> recent;
  int a = 1, b = 2;
  recent.keep(ref(1), &a);
  recent.keep(ref(17), &b); // 16 places.
  EXPECT_EQ(recent.find(ref(1)), nullptr);
  EXPECT_EQ(recent.find(ref(17)), &b);
  recent.make_room(9);
  recent.keep(ref(1), &a);
  recent.keep(ref(17), &b);
  EXPECT_EQ(recent.find(ref(1)), &a) << "there is room for both now";
  EXPECT_EQ(recent.find(ref(17)), &b);
}

} // namespace
} // namespace troupe
