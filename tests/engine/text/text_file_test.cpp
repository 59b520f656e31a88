// Goal: a file is read to its end, whatever size it is told to have, and never beyond its limit.
// Method: files on disk, also read as if they had another size; one of a told size of 0.

#include "engine/text/read_to_end.hpp"
#include "engine/text/text_file.hpp"
#include "tests/support/unsized_file.hpp"

#include <gtest/gtest.h>

#include <cstdio>

namespace troupe::text {
namespace {

constexpr std::int64_t kNoLimit = 1 << 30;

std::string text_of(std::size_t size) {
  std::string text(size, 'a');
  for (std::size_t i = 0; i < size; ++i)
    text[i] = static_cast<char>('a' + i % 26);
  return text;
}

/// What read_to_end gives of a file with `text` that is told to have `told` bytes.
std::string read_as(const std::string& text, std::int64_t told, std::int64_t bytes_max) {
  std::FILE* file = std::tmpfile();
  EXPECT_EQ(std::fwrite(text.data(), 1, text.size(), file), text.size());
  std::rewind(file);
  std::string bytes;
  EXPECT_TRUE(read_to_end(::fileno(file), told, bytes_max, bytes));
  std::fclose(file);
  return bytes;
}

TEST(ReadToEnd, WhateverSizeIsTold) {
  for (const std::size_t size : {0, 1, 65535, 65536, 65537, 1'000'000}) {
    const std::string text = text_of(size);
    for (const std::int64_t told : {std::int64_t{0}, static_cast<std::int64_t>(size),
                                    static_cast<std::int64_t>(size) / 2, std::int64_t{4096}}) {
      EXPECT_TRUE(read_as(text, told, kNoLimit) == text) << size << " told as " << told;
    }
  }
}

TEST(ReadToEnd, StopsOneByteBeyondTheLimit) {
  for (const std::int64_t told : {0, 10, 100'000}) {
    EXPECT_EQ(read_as(text_of(100'000), told, 9).size(), 10U) << told;
    EXPECT_EQ(read_as(text_of(100'000), told, 100'000).size(), 100'000U) << told;
    EXPECT_EQ(read_as(text_of(100'000), told, 99'999).size(), 100'000U) << told;
  }
}

TEST(ReadToEnd, SaysWhenItCannot) {
  std::string bytes;
  EXPECT_FALSE(read_to_end(-1, 0, kNoLimit, bytes));
}

TEST(TextFile, OneThatIsToldToBeEmptyIsReadAllTheSame) {
  const test::UnsizedFile file("words of it");
  const Result<std::string> text = read_text_file(file.path());
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(*text, "words of it\n");
  EXPECT_TRUE(read_text_file(file.path(), 12).ok());
  const Result<std::string> large = read_text_file(file.path(), 11);
  ASSERT_FALSE(large.ok());
  EXPECT_NE(large.error().message.find("has more than 11 bytes, expected at most 11"),
            std::string::npos)
      << large.error().message;
}

} // namespace
} // namespace troupe::text
