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
  OptionTable whole("queue");
  whole.set("size", {5.0, "p.toml:7"});
  EXPECT_EQ(whole.integer("size", 1, 0, 10), 1);
  EXPECT_EQ(whole.finish().error().message,
            "p.toml:7: queue.size: found 5.0, expected a whole number from 0 to 10");
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

TEST(OptionTable, AListOrTableInPlaceOfAValueSaysWhatWasExpected) {
  OptionTable options("queue");
  options.set("size[0]", {std::int64_t{7}, "p.toml:3"});
  EXPECT_EQ(options.integer("size", 5, 0, 10), 5);
  EXPECT_EQ(options.finish().error().message,
            "p.toml:3: queue.size: found a list, expected a whole number from 0 to 10");
  OptionTable nested("queue");
  nested.set("word.a", {true, "p.toml:4"});
  EXPECT_EQ(nested.text("word", "x"), "x");
  EXPECT_EQ(nested.finish().error().message,
            "p.toml:4: queue.word: found a table, expected a text in quotes");
}

TEST(OptionTable, AValueOrListInPlaceOfATableSaysSo) {
  OptionTable value("queue");
  value.set("bound", {std::int64_t{3}, "p.toml:3"});
  static_cast<void>(value.integer("bound.max_us", 1, 0, 9));
  EXPECT_EQ(value.finish().error().message,
            "p.toml:3: queue.bound: found 3, expected a table with the keys max_us");
  OptionTable list("queue");
  list.set("weights[0]", {std::int64_t{1}, "p.toml:5"});
  EXPECT_TRUE(list.thousandths_below("weights", 0, 9).empty());
  EXPECT_EQ(list.finish().error().message,
            "p.toml:5: queue.weights: found a list, expected a table of names and numbers, as in "
            "{ a = 2 }");
}

TEST(OptionTable, AListInPlaceOfATableSaysSo) {
  OptionTable list("queue");
  list.set("bound[0]", {std::int64_t{3}, "p.toml:3"});
  static_cast<void>(list.integer("bound.max_us", 1, 0, 9));
  EXPECT_EQ(list.finish().error().message,
            "p.toml:3: queue.bound: found a list, expected a table with the keys max_us");
}

TEST(OptionTable, LongNamesAndTextsAreCut) {
  const std::string longest(10'000, 'x');
  OptionTable key("queue");
  key.set(longest, {true, "p.toml:3"});
  EXPECT_LT(key.finish().error().message.size(), 300U);
  OptionTable text("queue");
  text.set("size", {longest + "\n", "p.toml:3"});
  static_cast<void>(text.integer("size", 1, 0, 9));
  EXPECT_LT(text.finish().error().message.size(), 300U);
  EXPECT_EQ(text.finish().error().message.find('\n'), std::string::npos);
}

TEST(RealText, IsNeverTheTextOfAnInteger) {
  EXPECT_EQ(real_text(5.0), "5.0");
  EXPECT_EQ(real_text(-0.0), "-0.0");
  EXPECT_EQ(real_text(0.1), "0.1");
  EXPECT_EQ(real_text(1e300), "1e+300");
  EXPECT_EQ(real_text(std::numeric_limits<double>::infinity()), "inf");
  for (const double nan :
       {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(real_text(nan), "nan");
  }
}

TEST(OptionTable, CountsTheEntriesOfLists) {
  OptionTable options("queue");
  options.set("words[0]", {std::string("a"), "p.toml:1"});
  options.set("words[1]", {std::string("b"), "p.toml:1"});
  options.set("terms[0].by", {std::string("a"), "p.toml:2"});
  EXPECT_EQ(options.list_size("words", "[\"a\"]"), 2U);
  EXPECT_EQ(options.tables_size("terms", "[{ by = \"a\" }]"), 1U);
  EXPECT_EQ(options.list_size("absent", "[]"), 0U);
  EXPECT_EQ(options.text("words[0]", ""), "a");
  EXPECT_EQ(options.text("words[1]", ""), "b");
  EXPECT_EQ(options.text("terms[0].by", ""), "a");
  EXPECT_TRUE(options.finish().ok());
  const auto refusal = [](const std::string& key, bool of_tables) {
    OptionTable wrong("queue");
    wrong.set(key, {std::string("x"), "p.toml:7"});
    static_cast<void>(of_tables ? wrong.tables_size("k", "[{ by = 1 }]")
                                : wrong.list_size("k", "[1]"));
    return wrong.finish().error().message;
  };
  EXPECT_EQ(refusal("k", false), "p.toml:7: queue.k: found \"x\", expected a list, as in k = [1]");
  EXPECT_EQ(refusal("k.by", true),
            "p.toml:7: queue.k: found a table, expected a list, as in k = [{ by = 1 }]");
  EXPECT_EQ(refusal("k[0]", true),
            "p.toml:7: queue.k[0]: found \"x\", expected a table, as in k = [{ by = 1 }]");
}

TEST(OptionTable, TheFirstErrorIsKept) {
  OptionTable options = table();
  static_cast<void>(options.integer("word", 5, 0, 10));
  static_cast<void>(options.boolean("size", false));
  EXPECT_NE(options.finish().error().message.find("queue.word"), std::string::npos);
}

TEST(OptionTable, EveryBoundInThousandthsIsInItsRange) {
  for (std::int64_t bound = 0; bound <= 3000; ++bound) {
    OptionTable options("t");
    options.set("x", {std::stod(std::to_string(bound / 1000) + "." +
                                std::to_string(1000 + bound % 1000).substr(1)),
                      ""});
    ASSERT_EQ(options.thousandths("x", -1, bound, bound), bound);
    ASSERT_TRUE(options.finish().ok()) << bound;
  }
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
  EXPECT_EQ(read({10.0000001, ""}), std::make_pair(std::int64_t{-1}, false));
  EXPECT_EQ(read({-1e-9, ""}), std::make_pair(std::int64_t{-1}, false));
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
