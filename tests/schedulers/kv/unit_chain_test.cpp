// Names of store units: the vector of policies.md section 7.1, and the search for the longest hit.

#include "schedulers/core/hex.hpp"
#include "schedulers/kv/unit_chain.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <openssl/sha.h>
#include <vector>

namespace troupe::sched {
namespace {

ChainDigest sha256(std::span<const std::uint8_t> bytes) {
  ChainDigest out{};
  ::SHA256(bytes.data(), bytes.size(), out.data());
  return out;
}

/// Tokens first, first + 1, ... of one unit.
std::vector<std::uint32_t> unit_from(std::uint32_t first) {
  std::vector<std::uint32_t> tokens(kUnitTokens);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

template <class Bytes>
std::string text_of(const Bytes& bytes) {
  return hex_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string key_text(const ChainDigest& link) { return text_of(key_of(link)); }

TEST(UnitChain, VectorOfTheSpecification) {
  const auto root = chain_root({"dsv4.1-flash", "kv1"}, sha256);
  ASSERT_TRUE(root.ok());
  EXPECT_EQ(text_of(*root).substr(0, 32), "132768ecafbd74bdeb8b422bdd1b8589");
  const ChainDigest first = next_link(*root, unit_from(1000), sha256);
  EXPECT_EQ(key_text(first), "eb9875e5c7e5b2716b71b7c18d3b3728");
  const ChainDigest second = next_link(first, unit_from(1256), sha256);
  EXPECT_EQ(key_text(second), "a68f1332f6388c28edc6ef57c543d81d");
}

TEST(UnitChain, SizesOfTheStore) {
  EXPECT_EQ(kUnitBytes, kUnitTokens * 890);
  EXPECT_NEAR(static_cast<double>(kExtentUnits * kUnitBytes) / 1e6, 1.82, 0.005);
  // The state of a sequence beside each unit would make it twelve times as large: 40 windows of
  // 128 rows of 528 bytes.
  EXPECT_NEAR(128.0 * 528 * 40 / 1e6, 2.70, 0.005);
  EXPECT_EQ(128LL * 528 * 40 / kUnitBytes + 1, 12);
}

// K6, K9: whatever changes the KV changes every name.
TEST(UnitChain, OtherModelFormatRevisionTenantTokensOrImagesHaveOtherNames) {
  const std::vector<ChainRoot> roots = {{"m", "f"},           {"n", "f"},
                                        {"m", "g"},           {"m", "f", "r"},
                                        {"m", "f", "r", "t"}, {"m", "f", "r", "u"}};
  std::vector<std::string> names;
  for (const ChainRoot& root : roots)
    names.push_back(key_text(next_link(*chain_root(root, sha256), unit_from(1), sha256)));
  const ChainDigest plain = *chain_root(roots[0], sha256);
  const std::array<std::uint8_t, 3> image = {1, 2, 3};
  names.push_back(key_text(next_link(plain, unit_from(2), sha256)));
  names.push_back(key_text(next_link(plain, unit_from(1), sha256, image)));
  names.push_back(
      key_text(next_link(next_link(plain, unit_from(1), sha256), unit_from(1), sha256)));
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_NE(names[i], names[j]) << i << " " << j;
  }
}

TEST(UnitChain, FieldsThatWouldReadLikeTwoAreRefused) {
  const auto message = [](const ChainRoot& root) {
    return chain_root(root, sha256).error().message;
  };
  EXPECT_EQ(message({"m|f", "g"}), "model of a store's names: found a '|' in \"m|f\", which parts "
                                   "the fields; leave it out");
  EXPECT_NE(message({"m", "f", "r", "a|b"}).find("tenant_salt"), std::string::npos);
  EXPECT_FALSE(chain_root({"", "f"}, sha256).ok());
  EXPECT_FALSE(chain_root({"m", ""}, sha256).ok());
}

// Every chain of up to 600 units with every number of units there.
TEST(UnitChain, TheLongestPrefixTakesTwoLogarithmsOfProbes) {
  for (std::int64_t units = 0; units <= 600; ++units) {
    for (std::int64_t there = 0; there <= units; ++there) {
      std::int64_t probes = 0;
      const auto is_there = [&](std::int64_t unit) {
        EXPECT_GE(unit, 0);
        EXPECT_LT(unit, units);
        ++probes;
        return unit < there;
      };
      ASSERT_EQ(longest_prefix(units, is_there), there) << units;
      // probes <= 2·log2(units), as powers of two.
      if (units >= 2) {
        ASSERT_LE(1LL << probes, units * units) << units << " " << there;
      } else {
        ASSERT_LE(probes, units);
      }
    }
  }
}

} // namespace
} // namespace troupe::sched
