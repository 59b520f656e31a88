// Strict typed options: wrong types, ranges and unknown keys are errors that name place and key.

#include "schedulers/core/options.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace troupe {
namespace {

OptionTable table() {
  OptionTable options("queue");
  options.set("size", {std::int64_t{7}, "p.toml:3"});
  options.set("share", {0.25, "p.toml:4"});
  options.set("fast", {true, "p.toml:5"});
  options.set("word", {std::string("abc"), "p.toml:6"});
  return options;
}

TEST(OptionTable, ReadsEachTypeOnce) {
  OptionTable options = table();
  EXPECT_EQ(options.integer("size", 1, 0, 10), 7);
  EXPECT_EQ(options.thousandths("share", 1, 0, 1000), 250);
  EXPECT_TRUE(options.boolean("fast", false));
  EXPECT_EQ(options.text("word", ""), "abc");
  EXPECT_EQ(options.integer("absent", 42, 0, 100), 42);
  EXPECT_TRUE(options.finish().ok());
}

TEST(OptionTable, UnreadKeyNamesTheNearestOne) {
  OptionTable options = table();
  options.set("siz", {std::int64_t{1}, "p.toml:9"});
  static_cast<void>(options.integer("size", 1, 0, 10));
  static_cast<void>(options.thousandths("share", 1, 0, 1000));
  static_cast<void>(options.boolean("fast", false));
  static_cast<void>(options.text("word", ""));
  const Status status = options.finish();
  EXPECT_EQ(status.error().code, ErrorCode::unknown_key);
  EXPECT_EQ(status.error().message, "p.toml:9: queue.siz: unknown key; did you mean \"size\"?");
}

TEST(OptionTable, WrongTypeAndRangeAreErrorsAndGiveTheFallback) {
  OptionTable wrong = table();
  EXPECT_EQ(wrong.integer("word", 5, 0, 10), 5);
  EXPECT_EQ(wrong.finish().error().message,
            "p.toml:6: queue.word: found \"abc\", expected a whole number from 0 to 10");
  OptionTable far = table();
  EXPECT_EQ(far.integer("size", 5, 8, 10), 5);
  EXPECT_EQ(far.finish().error().code, ErrorCode::bad_argument);
  OptionTable real = table();
  EXPECT_EQ(real.integer("share", 5, 0, 10), 5);
  EXPECT_FALSE(real.finish().ok());
  OptionTable flag = table();
  EXPECT_EQ(flag.text("fast", "x"), "x");
  EXPECT_FALSE(flag.finish().ok());
}

TEST(OptionTable, NumbersAreReadAsWrittenWithinTheirBounds) {
  OptionTable options("queue");
  options.set("half", {0.5, "p.toml:4"});
  options.set("two", {std::int64_t{2}, "p.toml:5"});
  EXPECT_EQ(options.number("half", 0, 0, 1), 0.5);
  EXPECT_EQ(options.number("two", 0, -2, 2), 2.0);
  EXPECT_EQ(options.number("absent", 0.25, 0, 1), 0.25);
  EXPECT_TRUE(options.finish().ok());
  EXPECT_EQ(options.number("two", 0.125, -1.5, 1.5), 0.125);
  EXPECT_EQ(options.finish().error().message,
            "p.toml:5: queue.two: found 2, expected a number from -1.5 up to 1.5");
  OptionTable text = table();
  text.number("word", 0, std::numeric_limits<double>::lowest(), 4);
  EXPECT_EQ(text.finish().error().message,
            "p.toml:6: queue.word: found \"abc\", expected a number up to 4");
}

TEST(OptionTable, TheFirstErrorIsKept) {
  OptionTable options = table();
  static_cast<void>(options.integer("word", 5, 0, 10));
  static_cast<void>(options.boolean("size", false));
  EXPECT_NE(options.finish().error().message.find("queue.word"), std::string::npos);
}

TEST(OptionTable, ThousandthsRoundAndRefuseWhatIsNoNumber) {
  const auto read = [](OptionValue value) {
    OptionTable options("t");
    options.set("x", std::move(value));
    const std::int64_t got = options.thousandths("x", -1, 0, 10'000);
    return std::make_pair(got, options.finish().ok());
  };
  EXPECT_EQ(read({0.0004, ""}), std::make_pair(std::int64_t{0}, true));
  EXPECT_EQ(read({0.0005, ""}), std::make_pair(std::int64_t{1}, true));
  EXPECT_EQ(read({std::int64_t{10}, ""}), std::make_pair(std::int64_t{10'000}, true));
  EXPECT_EQ(read({10.01, ""}), std::make_pair(std::int64_t{-1}, false));
  EXPECT_EQ(read({1e300, ""}), std::make_pair(std::int64_t{-1}, false));
  EXPECT_EQ(read({std::numeric_limits<double>::quiet_NaN(), ""}),
            std::make_pair(std::int64_t{-1}, false));
  EXPECT_EQ(read({std::numeric_limits<std::int64_t>::max(), ""}),
            std::make_pair(std::int64_t{-1}, false));
}

TEST(NearestName, FindsTypingSlipsOnly) {
  const std::set<std::string> known = {"least_work", "round_robin", "fcfs"};
  EXPECT_EQ(nearest_name("laest_work", known), "least_work");
  EXPECT_EQ(nearest_name("roundrobin", known), "round_robin");
  EXPECT_EQ(nearest_name("fcf", known), "fcfs");
  EXPECT_EQ(nearest_name("zzz", known), "");
  EXPECT_EQ(nearest_name(std::string(10'000, 'f'), known), "");
  EXPECT_EQ(nearest_name("", known), "");
}

} // namespace
} // namespace troupe
