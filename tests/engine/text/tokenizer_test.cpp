// Goal: ids equal those of the original tokenizer, for every reference text at hand.
// Method: reference rows, round trips, and hostile files.

#include "engine/text/detokenizer.hpp"
#include "engine/text/tokenizer.hpp"
#include "tests/engine/text/text_fixtures.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace troupe::text {
namespace {

using Ids = std::vector<std::int32_t>;

Ids encoded(const Tokenizer& tokenizer, std::string_view text, AddedTokens added) {
  Result<Ids> ids = tokenizer.encode(text, added);
  EXPECT_TRUE(ids.ok()) << (ids.ok() ? "" : ids.error().message);
  return ids.ok() ? *ids : Ids{};
}

std::shared_ptr<const Tokenizer> nano() {
  return tokenizer_from(nano_folder() + "/tokenizer.json");
}

TEST(Tokenizer, CommittedEncodingsOfTheBundledModel) {
  int rows = 0;
  for (const JsonValue& row : read_rows(vector_path("encodings_nano.jsonl"))) {
    const std::string text = text_of(row, "text");
    EXPECT_EQ(encoded(*nano(), text, AddedTokens::match), ids_of(row, "ids")) << text;
    const Ids plain = ids_of(row, row.find("plain") != nullptr ? "plain" : "ids");
    EXPECT_EQ(encoded(*nano(), text, AddedTokens::ignore), plain) << text;
    EXPECT_EQ(decode(nano(), plain, SpecialTokens::keep), text);
    ++rows;
  }
  EXPECT_GE(rows, 60);
}

TEST(Tokenizer, All614EncodingsUnderThreeFiles) {
  const auto rows = full_size_path("tokenizer/deepseek_v3_reference_encodings.jsonl.gz");
  if (!rows) GTEST_SKIP() << "no shared folder, or sanitizers";
  for (const char* file : {"v3", "v4", "v4.1"}) {
    const auto path = shared_path(std::string("tokenizer/deepseek_") + file + "_tokenizer.json.gz");
    ASSERT_TRUE(path.has_value());
    const auto tokenizer = tokenizer_from(*path);
    int count = 0;
    for (const JsonValue& row : read_rows(*rows)) {
      const std::string text = text_of(row, "text");
      const Ids ids = encoded(*tokenizer, text, AddedTokens::match);
      ASSERT_EQ(ids, ids_of(row, "ids")) << file << ": " << text;
      ASSERT_EQ(decode(tokenizer, ids, SpecialTokens::keep), text);
      ++count;
    }
    EXPECT_EQ(count, 614) << file;
  }
}

TEST(Tokenizer, All440EncodingsWithAndWithoutAddedTokens) {
  const auto rows = full_size_path("tokenizer/deepseek_v4_reference_encodings.jsonl.gz");
  if (!rows) GTEST_SKIP() << "no shared folder, or sanitizers";
  const auto v4 = tokenizer_from(*shared_path("tokenizer/deepseek_v4_tokenizer.json.gz"));
  const auto v41 = tokenizer_from(*shared_path("tokenizer/deepseek_v4.1_tokenizer.json.gz"));
  int count = 0;
  for (const JsonValue& row : read_rows(*rows)) {
    const std::string text = text_of(row, "text");
    const Ids ids = ids_of(row, "ids");
    const Ids ids_v41 = row.find("v41") != nullptr ? ids_of(row, "v41") : ids;
    const Ids plain = row.find("plain") != nullptr ? ids_of(row, "plain") : ids;
    ASSERT_EQ(encoded(*v4, text, AddedTokens::match), ids) << text;
    ASSERT_EQ(encoded(*v41, text, AddedTokens::match), ids_v41) << text;
    ASSERT_EQ(encoded(*v4, text, AddedTokens::ignore), plain) << text;
    ASSERT_EQ(encoded(*v41, text, AddedTokens::ignore), plain) << text;
    ASSERT_EQ(decode(v41, ids_v41, SpecialTokens::keep), text);
    ASSERT_EQ(decode(v41, plain, SpecialTokens::keep), text);
    ++count;
  }
  EXPECT_EQ(count, 440);
}

TEST(Tokenizer, SegmentsDecideWhereAddedTokensMatch) {
  const auto think = nano()->id_of("<think>");
  ASSERT_TRUE(think.has_value());
  EXPECT_EQ(encoded(*nano(), "<think>", AddedTokens::match), Ids{*think});
  EXPECT_GT(encoded(*nano(), "<think>", AddedTokens::ignore).size(), 1U);
  EXPECT_TRUE(nano()->is_added(*think));
  EXPECT_FALSE(nano()->is_special(*think));

  const std::vector<PromptSegment> segments{
      {"hello wor", false}, {"ld <think>x", true}, {"yz", false}};
  Result<Ids> ids = nano()->encode(segments);
  ASSERT_TRUE(ids.ok());
  Ids expected = encoded(*nano(), "hello world ", AddedTokens::ignore); // Text runs are joined.
  expected.push_back(*think);
  for (const std::int32_t id : encoded(*nano(), "xyz", AddedTokens::ignore))
    expected.push_back(id);
  EXPECT_EQ(*ids, expected);
}

TEST(Tokenizer, LeftmostThenLongestAddedToken) {
  const auto v41 = full_size_path("tokenizer/deepseek_v4.1_tokenizer.json.gz");
  if (!v41) GTEST_SKIP() << "no shared folder, or sanitizers";
  const auto tokenizer = tokenizer_from(*v41);
  const auto dsml = tokenizer->id_of("｜DSML｜");
  const auto reminder = tokenizer->id_of("<｜latest_reminder｜>");
  ASSERT_TRUE(dsml && reminder);
  const Ids ids = encoded(*tokenizer, "<｜latest_reminder｜>｜DSML｜", AddedTokens::match);
  EXPECT_EQ(ids, (Ids{*reminder, *dsml}));
  EXPECT_EQ(tokenizer->vocab_size(), 129280);
  EXPECT_EQ(tokenizer->id_of("no such token here"), std::nullopt);
}

TEST(Tokenizer, UnknownIdsHaveNoBytes) {
  EXPECT_EQ(nano()->token_bytes(-1), "");
  EXPECT_EQ(nano()->token_bytes(1 << 30), "");
  EXPECT_FALSE(nano()->is_special(-1));
}

TEST(Tokenizer, TextThatIsNotUtf8IsRefusedWithItsPlace) {
  Result<Ids> ids = nano()->encode("abc\xFFxyz", AddedTokens::ignore);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code, ErrorCode::parse_error);
  EXPECT_NE(ids.error().message.find("byte 3"), std::string::npos) << ids.error().message;
}

#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kLongBytes = 100000;
#else
constexpr std::size_t kLongBytes = 1000000;
#endif

TEST(Tokenizer, LongRunsTakeSecondsNotHours) {
  for (const std::string unit : {"a", " ", "=", "\n", "é", "<think>", "一"}) {
    std::string text;
    while (text.size() < kLongBytes)
      text += unit;
    const auto start = std::chrono::steady_clock::now();
    const Ids ids = encoded(*nano(), text, AddedTokens::match);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(decode(nano(), ids, SpecialTokens::keep), text);
    EXPECT_LT(took.count(), 30.0) << unit;
  }
}

// A run of spaces is tried from every place, up to a limit that the message names.
TEST(Tokenizer, ARunBeyondTheLimitIsRefusedWithThatLimit) {
  const std::string text = "ab" + std::string(15U << 20, ' ') + "c";
  const auto ids = nano()->encode(text, AddedTokens::match);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().message,
            "the text cannot be split into words: the word that begins at byte 2 of 15728643 takes "
            "more than 10000000 steps of matching, the limit for one word; a run of millions of "
            "spaces or other characters of one kind does this: shorten it, or put other text "
            "between");
}

TEST(Tokenizer, ManyThreadsShareOne) {
  const std::string text = "Remember this list.\n- Ida: March 1234 é 一二三";
  const Ids expected = encoded(*nano(), text, AddedTokens::ignore);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        Result<Ids> ids = nano()->encode(text, AddedTokens::ignore);
        if (!ids.ok() || *ids != expected) ++wrong[static_cast<std::size_t>(t)];
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

// -- hostile files

/// The bundled model's file with one text replaced.
Result<std::shared_ptr<const Tokenizer>> changed(const std::string& from, const std::string& to) {
  std::string json = read_fixture(nano_folder() + "/tokenizer.json");
  const auto at = json.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) json.replace(at, from.size(), to);
  return Tokenizer::parse(json, "some/tokenizer.json");
}

TEST(TokenizerFile, EveryFlawNamesFileAndKey) {
  const struct {
    const char *from, *to, *key;
  } kFlaws[] = {
      {"\"merges\":", "\"merge\":", "model.merges"},
      {"\"vocab\":", "\"words\":", "model.vocab"},
      {"\"type\":\"BPE\"", "\"type\":\"Unigram\"", "model.type"},
      {"\"type\":\"Split\"", "\"type\":\"Digits\"", "pre_tokenizer.pretokenizers[0].type"},
      {"\"behavior\":\"Isolated\"", "\"behavior\":\"Removed\"", "pretokenizers[0].behavior"},
      {"\\\\p{N}{1,3}", "(", "pre_tokenizer"},
      {"\"Regex\":", "\"String\":", "pretokenizers[0].pattern.Regex"},
      {"\"use_regex\":false", "\"use_regex\":true", "use_regex"},
      {"\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}", "normalizer"},
      {"\"id\":0,", "\"id\":-1,", "added_tokens[0].id"},
      {"\"id\":0,", "\"id\":4000000000,", "added_tokens[0].id"},
      {"\"lstrip\":false", "\"lstrip\":true", "added_tokens[0].lstrip"},
      {"\"byte_fallback\":false", "\"byte_fallback\":true", "model.byte_fallback"},
      {"\"pre_tokenizer\":", "\"pre\":", "pre_tokenizer"},
      {"\"decoder\":{\"type\":\"ByteLevel\"", "\"decoder\":{\"type\":\"Fuse\"", "decoder.type"},
  };
  for (const auto& flaw : kFlaws) {
    const auto result = changed(flaw.from, flaw.to);
    ASSERT_FALSE(result.ok()) << flaw.to;
    EXPECT_TRUE(result.error().message.starts_with("some/tokenizer.json: "))
        << result.error().message;
    EXPECT_NE(result.error().message.find(flaw.key), std::string::npos) << result.error().message;
  }
}

TEST(TokenizerFile, EveryTruncationIsRefused) {
  const std::string json = read_fixture(nano_folder() + "/tokenizer.json");
  for (std::size_t size = 0; size < json.size(); size += 997) {
    EXPECT_FALSE(Tokenizer::parse(json.substr(0, size), "cut.json").ok()) << size;
  }
}

TEST(TokenizerFile, NoFileAndNoObject) {
  const auto absent = Tokenizer::load("/nowhere/tokenizer.json");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::not_found);
  for (const char* json : {"", "null", "[]", "\"x\"", "{}", "{\"model\":[]}", "{\"model\":{}}",
                           "{\"model\":{\"vocab\":{},\"merges\":[]}}"}) {
    EXPECT_FALSE(Tokenizer::parse(json, "x").ok()) << json;
  }
}

} // namespace
} // namespace troupe::text
