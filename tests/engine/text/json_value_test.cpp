// Goal: numbers and strings are spelled as Python spells them, keys stay in order, depth is
// bounded.

#include "engine/text/json_value.hpp"

#include <gtest/gtest.h>

namespace troupe::text {
namespace {

std::string respelled(const std::string& json) {
  const Result<JsonValue> value = parse_json(json);
  return value.ok() ? python_json(*value) : "error: " + value.error().message;
}

// Expected texts: Python 3.11, json.dumps(json.loads(x), ensure_ascii=False).
TEST(PythonJson, Numbers) {
  EXPECT_EQ(respelled("[1, -2, 0, 18446744073709551615, -9223372036854775808]"),
            "[1, -2, 0, 18446744073709551615, -9223372036854775808]");
  EXPECT_EQ(respelled("[1.0, 2.50, 1e3, 0.1, -0.0, 100.0]"),
            "[1.0, 2.5, 1000.0, 0.1, -0.0, 100.0]");
  EXPECT_EQ(respelled("[1e15, 1e16, 1.5e16, 1e22, 1e100, 123456789012345680.0]"),
            "[1000000000000000.0, 1e+16, 1.5e+16, 1e+22, 1e+100, 1.2345678901234568e+17]");
  EXPECT_EQ(respelled("[1e-4, 1e-5, 1.5e-7, 0.00012, 5e-324]"),
            "[0.0001, 1e-05, 1.5e-07, 0.00012, 5e-324]");
  EXPECT_EQ(respelled("[1.7976931348623157e308, 0.30000000000000004, 12345.678]"),
            "[1.7976931348623157e+308, 0.30000000000000004, 12345.678]");
}

TEST(PythonJson, IntegersBeyond64BitsAndMinusZeroAreFloats) {
  EXPECT_EQ(respelled("[18446744073709551616, -9223372036854775809, -0]"),
            "[1.8446744073709552e+19, -9.223372036854776e+18, -0.0]");
}

TEST(PythonJson, Strings) {
  EXPECT_EQ(respelled(R"("\u00e9\ud83d\ude00 \" \\ \/ \b\f\n\r\t\u0001\u007f")"),
            "\"é😀 \\\" \\\\ / \\b\\f\\n\\r\\t\\u0001\x7F\"");
}

TEST(PythonJson, KeysKeepTheirFirstPlaceAndLastValue) {
  EXPECT_EQ(respelled(R"({"z":1,"a":{},"z":[ ],"m":null})"), R"({"z": [], "a": {}, "m": null})");
}

TEST(ParseJson, RefusesWhatIsNoJson) {
  for (const char* json : {"", "{", "[1,]", "{\"a\":}", "NaN", "1e400", "\"\\ud800\"", "01", "1.",
                           "\"\n\"", "\xEF\xBB\xBF[]", "[] []", "\"\xC3\""}) {
    EXPECT_FALSE(parse_json(json).ok()) << json;
  }
}

TEST(ParseJson, DepthIsBounded) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(parse_json(nested(kJsonDepthMax)).ok());
  EXPECT_FALSE(parse_json(nested(kJsonDepthMax + 1)).ok());
  EXPECT_FALSE(parse_json(std::string(1000000, '{')).ok());
}

TEST(ParseJson, ErrorsAreShort) {
  const Result<JsonValue> value = parse_json("\"" + std::string(100000, 'x'));
  ASSERT_FALSE(value.ok());
  EXPECT_LT(value.error().message.size(), 400U);
}

} // namespace
} // namespace troupe::text
