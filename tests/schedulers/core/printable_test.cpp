// What a message repeats of somebody else's text: one line, bounded, harmless on a terminal.

#include "schedulers/core/printable.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(Printable, OrdinaryTextStaysAsItIs) {
  for (const char* text : {"", "plain", "größe", "日本語", "a \"b\" \\c", "\U0001F600"})
    EXPECT_EQ(printable(text), text);
  EXPECT_EQ(quote("plain"), "\"plain\"");
  EXPECT_EQ(quote("größe"), "\"größe\"");
}

TEST(Printable, WhatATerminalObeysIsSpelt) {
  EXPECT_EQ(printable("a\nb\tc"), "a\\x0ab\\x09c");
  EXPECT_EQ(printable("\x1b[31m"), "\\x1b[31m");
  EXPECT_EQ(printable("\x7f"), "\\x7f");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\u009b31m"), "\\u009b31m") << "a control sequence of one character";
  EXPECT_EQ(printable("\u202egpj.exe"), "\\u202egpj.exe") << "turns the direction of writing";
  EXPECT_EQ(printable("a\u2028b"), "a\\u2028b");
  EXPECT_EQ(printable("\ufeffx"), "\\ufeffx");
}

TEST(Printable, BytesThatAreNoTextAreSpelt) {
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("a\xc3"), "a\\xc3") << "cut character";
  EXPECT_EQ(printable("\xc3(\xe4\xb8"), "\\xc3(\\xe4\\xb8");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf") << "overlong";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond the last character";
}

TEST(Printable, LongTextIsCutBetweenCharactersAndItsLengthTold) {
  const std::string text(10'000, 'a');
  EXPECT_EQ(printable(text), std::string(kShownBytesMax, 'a') + "... (10000 bytes)");
  EXPECT_EQ(quote(text), '"' + std::string(kShownBytesMax, 'a') + "...\" (10000 bytes)");
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("aaäb", 3), "aa... (5 bytes)") << "the ä would be cut";
  EXPECT_EQ(printable("日本", 2), "... (6 bytes)");
  // Whatever is cut out: valid text, and never much longer than asked for.
  const std::string mixed = "a\xffä\n日\U0001F600\u202e";
  for (std::size_t bytes = 0; bytes <= mixed.size(); ++bytes) {
    const std::string shown = printable(mixed, bytes);
    EXPECT_EQ(printable(shown, shown.size()), shown) << bytes;
    EXPECT_LE(shown.size(), 4 * bytes + 20);
  }
}

TEST(MessageLine, LongWordsAreCutAndTheRestStays) {
  EXPECT_EQ(message_line(""), "");
  EXPECT_EQ(message_line(" a  b "), " a  b ");
  EXPECT_EQ(message_line("x: found\n\x1b"), "x: found\\x0a\\x1b");
  const std::string cut = std::string(kShownPathMax, 'p') + "... (100000 bytes)";
  EXPECT_EQ(message_line("cannot open " + std::string(100'000, 'p') + " now"),
            "cannot open " + cut + " now");
  std::string many;
  for (int i = 0; i < 100'000; ++i)
    many += "ab ";
  EXPECT_LE(message_line(many).size(), 17'000U);
}

TEST(Quote, QuotesAndBackslashesInsideAreEscaped) {
  EXPECT_EQ(quote("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(quote("\n"), "\"\\x0a\"");
}

} // namespace
} // namespace troupe
