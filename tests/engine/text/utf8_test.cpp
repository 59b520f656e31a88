// Goal: text never shows half a character, and broken bytes show as Python shows them.

#include "engine/text/detokenizer.hpp"
#include "engine/text/utf8.hpp"
#include "tests/engine/text/text_fixtures.hpp"

#include <gtest/gtest.h>

namespace troupe::text {
namespace {

/// The text of `bytes` when they come in pieces of one and of two, which must agree with the whole.
std::string decoded(const std::string& bytes) {
  std::string whole;
  Utf8Stream stream;
  stream.push(bytes, whole);
  stream.flush(whole);
  for (std::size_t at = 0; at <= bytes.size(); ++at) {
    std::string text;
    Utf8Stream parts;
    parts.push(std::string_view(bytes).substr(0, at), text);
    EXPECT_EQ(invalid_utf8_at(text), std::nullopt);
    parts.push(std::string_view(bytes).substr(at), text);
    parts.flush(text);
    EXPECT_EQ(text, whole) << at;
  }
  std::string single;
  Utf8Stream ones;
  for (const char byte : bytes)
    ones.push(std::string_view(&byte, 1), single);
  ones.flush(single);
  EXPECT_EQ(single, whole);
  return whole;
}

// Expected texts: Python 3.11, bytes.decode("utf-8", errors="replace").
TEST(Utf8, BrokenBytesAsPythonReplacesThem) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(decoded("abc"), "abc");
  EXPECT_EQ(decoded("\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x80");
  EXPECT_EQ(decoded("\x80"), r);
  EXPECT_EQ(decoded("\xC0\x80"), r + r);
  EXPECT_EQ(decoded("\xE2\x82"), r);
  EXPECT_EQ(decoded("\xE2\x28\xA1"), r + "(" + r);
  EXPECT_EQ(decoded("\xF0\x9F\x98"), r);
  EXPECT_EQ(decoded("\xF0\x9F\x98x"), r + "x");
  EXPECT_EQ(decoded("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(decoded("\xE0\x80\x80"), r + r + r);
  EXPECT_EQ(decoded("\xF4\x90\x80\x80"), r + r + r + r);
  EXPECT_EQ(decoded("\xF5\xFF"), r + r);
  EXPECT_EQ(decoded("a\xFFz\xC3"), "a" + r + "z" + r);
}

TEST(Utf8, PlaceOfTheFirstFlaw) {
  EXPECT_EQ(invalid_utf8_at("h\xC3\xA9llo"), std::nullopt);
  EXPECT_EQ(invalid_utf8_at("ab\xC3"), 2U);
  EXPECT_EQ(invalid_utf8_at("\xED\xA0\x80"), 0U);
}

void expect_every_split(const std::shared_ptr<const Tokenizer>& tokenizer,
                        const std::vector<std::int32_t>& ids, const std::string& text) {
  for (std::size_t at = 0; at <= ids.size(); ++at) {
    Detokenizer stream(tokenizer, SpecialTokens::keep);
    const std::span<const std::int32_t> all(ids);
    std::string out = stream.push(all.first(at));
    ASSERT_EQ(invalid_utf8_at(out), std::nullopt);
    ASSERT_TRUE(text.starts_with(out));
    out += stream.push(all.subspan(at));
    ASSERT_EQ(out + stream.flush(), text);
  }
  Detokenizer stream(tokenizer, SpecialTokens::keep);
  std::string out;
  for (const std::int32_t id : ids)
    out += stream.push(id);
  ASSERT_EQ(out + stream.flush(), text);
}

TEST(Detokenizer, EverySplitOfCommittedEncodings) {
  const auto tokenizer = tokenizer_from(nano_folder() + "/tokenizer.json");
  for (const JsonValue& row : read_rows(vector_path("encodings_nano.jsonl"))) {
    expect_every_split(tokenizer, ids_of(row, "ids"), text_of(row, "text"));
  }
}

TEST(Detokenizer, EverySplitOfAllReferenceEncodings) {
  const auto rows = full_size_path("tokenizer/deepseek_v4_reference_encodings.jsonl.gz");
  if (!rows) GTEST_SKIP() << "no shared folder, or sanitizers";
  const auto tokenizer = tokenizer_from(*shared_path("tokenizer/deepseek_v4_tokenizer.json.gz"));
  for (const JsonValue& row : read_rows(*rows)) {
    expect_every_split(tokenizer, ids_of(row, "ids"), text_of(row, "text"));
  }
  for (const JsonValue& row :
       read_rows(*shared_path("tokenizer/deepseek_v3_reference_encodings.jsonl.gz"))) {
    const auto ids = ids_of(row, "ids");
    if (ids.size() < 200) expect_every_split(tokenizer, ids, text_of(row, "text"));
  }
}

TEST(Detokenizer, SkipsSpecialTokensOnlyWhenAsked) {
  const auto tokenizer = tokenizer_from(nano_folder() + "/tokenizer.json");
  const std::vector<std::int32_t> ids{tokenizer->id_of("<｜begin▁of▁sentence｜>").value(),
                                      tokenizer->id_of("<think>").value()};
  EXPECT_EQ(decode(tokenizer, ids, SpecialTokens::skip), "<think>"); // Added, but not special.
  EXPECT_EQ(decode(tokenizer, ids, SpecialTokens::keep), "<｜begin▁of▁sentence｜><think>");
}

TEST(Detokenizer, HalfACharacterAtTheEndIsReplacedOnce) {
  const auto tokenizer = tokenizer_from(nano_folder() + "/tokenizer.json");
  Detokenizer stream(tokenizer, SpecialTokens::keep);
  const auto first = tokenizer->id_of("\xF0");
  const auto second = tokenizer->id_of("\x9F");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(stream.push(*first), "");
  EXPECT_EQ(stream.push(*second), "");
  EXPECT_EQ(stream.push(-5), ""); // No such token.
  EXPECT_EQ(stream.flush(), "\uFFFD");
  EXPECT_EQ(stream.flush(), "");
}

} // namespace
} // namespace troupe::text
