// SHA-256 against the examples of its standard.

#include "schedulers/core/sha256.hpp"
#include "schedulers/kv/unit_chain.hpp"

#include <gtest/gtest.h>

#include <string>

namespace troupe {
namespace {

std::string digest_of(std::string_view text, std::size_t piece) {
  Sha256 hash;
  for (std::size_t at = 0; at < text.size(); at += piece)
    hash.add(text.substr(at, piece));
  return sched::hex_of(hash.finish());
}

TEST(Sha256, ExamplesOfTheStandard) {
  EXPECT_EQ(digest_of("", 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest_of("abc", 3),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digest_of(std::string(1'000'000, 'a'), 1000),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesDoNotMatter) {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    const std::string whole = digest_of(text, 1000);
    for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{64}})
      ASSERT_EQ(digest_of(text, piece), whole) << text.size();
    text += static_cast<char>(i);
  }
  Sha256 words;
  words.add_le32(0x64636261);
  EXPECT_EQ(sched::hex_of(words.finish()), digest_of("abcd", 4));
}

} // namespace
} // namespace troupe
