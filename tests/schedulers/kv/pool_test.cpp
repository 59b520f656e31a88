// Blocks and slots are conserved: free + used + promised = total, lowest id first.

#include "schedulers/core/rng.hpp"
#include "schedulers/kv/block_pool.hpp"
#include "schedulers/kv/block_table.hpp"
#include "schedulers/kv/slot_pool.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>

namespace troupe::sched {
namespace {

TEST(BlockPool, PromisesTakesAndGivesBack) {
  BlockPool pool(4);
  ASSERT_TRUE(pool.reserve(3));
  EXPECT_EQ(pool.free(), 1);
  EXPECT_FALSE(pool.reserve(2)) << "nothing is overcommitted";
  const KvBlockId a = pool.take();
  const KvBlockId b = pool.take();
  EXPECT_EQ(raw(a), 0);
  EXPECT_EQ(raw(b), 1);
  EXPECT_EQ(pool.used(), 2);
  EXPECT_EQ(pool.promised(), 1);
  pool.give_back(std::array{a});
  ASSERT_TRUE(pool.reserve(2));
  EXPECT_EQ(raw(pool.take()), 0) << "the lowest free id comes first";
  EXPECT_TRUE(pool.check().ok());
  EXPECT_EQ(pool.free() + pool.used() + pool.promised(), pool.total());
}

TEST(BlockPool, AnEmptyPoolGivesNothing) {
  BlockPool pool(0);
  EXPECT_TRUE(pool.reserve(0));
  EXPECT_FALSE(pool.reserve(1));
  EXPECT_TRUE(pool.check().ok());
}

// A pool costs what is used of it: a scenario may ask for any number of blocks.
TEST(BlockPool, TheLargestPoolIsAsCheapAsASmallOne) {
  std::vector<BlockPool> pools(10'000, BlockPool(2'147'483'647)); // 20 TB of ids if written out.
  for (BlockPool& pool : pools) {
    ASSERT_TRUE(pool.reserve(pool.total()));
    EXPECT_EQ(raw(pool.take()), 0);
    EXPECT_EQ(raw(pool.take()), 1);
    pool.give_back(std::array{KvBlockId{0}});
    EXPECT_EQ(pool.used(), 1);
    EXPECT_EQ(pool.free(), 1);
    EXPECT_TRUE(pool.check().ok());
  }
}

TEST(BlockPoolDeathTest, MisuseIsABug) {
  BlockPool pool(2);
  EXPECT_DEATH(static_cast<void>(pool.take()), "promise");
  EXPECT_DEATH(pool.give_back(std::array{KvBlockId{0}}), "freed once");
  EXPECT_DEATH(pool.give_back(std::array{KvBlockId{7}}), "freed once");
  EXPECT_DEATH(pool.unreserve(1), "promised");
}

TEST(SlotPool, LowestIdFirstAndConserved) {
  SlotPool pool(2);
  const auto a = pool.take();
  const auto b = pool.take();
  ASSERT_TRUE(a && b);
  EXPECT_EQ(raw(*a), 0);
  EXPECT_FALSE(pool.take().has_value());
  pool.give_back(*a);
  EXPECT_EQ(raw(*pool.take()), 0);
  EXPECT_TRUE(pool.check().ok());
  EXPECT_DEATH(pool.give_back(StateSlotId{5}), "freed once");
  EXPECT_DEATH(pool.give_back(StateSlotId{-1}), "freed once");
  std::vector<SlotPool> largest(10'000, SlotPool(2'147'483'647)); // Costs what is used of it.
  for (SlotPool& one : largest) {
    EXPECT_EQ(raw(*one.take()), 0);
    EXPECT_EQ(one.free(), one.total() - 1);
    EXPECT_TRUE(one.check().ok());
  }
}

TEST(BlockTable, GrowsWithinItsPromiseAndReturnsAll) {
  BlockPool pool(8);
  ASSERT_TRUE(pool.reserve(3));
  BlockTable table(3);
  table.grow(2, pool);
  table.grow(1, pool);
  EXPECT_EQ(table.blocks().size(), 2U);
  EXPECT_EQ(table.capacity(), 3);
  EXPECT_DEATH(table.grow(4, pool), "outgrew");
  table.release(pool);
  EXPECT_EQ(pool.free(), 8);
  EXPECT_TRUE(pool.check().ok());
}

TEST(Pools, RandomUseConserves) {
  constexpr std::uint64_t kSeed = 5;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  Rng rng(kSeed);
  BlockPool pool(37);
  std::vector<BlockTable> tables;
  for (int i = 0; i < 5000; ++i) {
    if (rng.below(2) == 0) {
      const auto n = static_cast<std::int64_t>(rng.below(9));
      if (pool.reserve(n)) tables.emplace_back(n);
    } else if (!tables.empty()) {
      const auto at = rng.below(tables.size());
      BlockTable& table = tables[at];
      if (rng.below(2) == 0) {
        table.grow(
            static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(table.capacity()) + 1)),
            pool);
      } else {
        table.release(pool);
        tables.erase(tables.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    ASSERT_TRUE(pool.check().ok());
    std::int64_t owned = 0;
    for (const BlockTable& table : tables)
      owned += table.capacity();
    ASSERT_EQ(owned, pool.used() + pool.promised());
  }
}

} // namespace
} // namespace troupe::sched
