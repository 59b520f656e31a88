// The thread pool: every task once, workers apart, calls one after the other.

#include "engine/thread_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace {

using troupe::engine::ThreadPool;

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int call = 0; call < 500; ++call) {
      const std::int64_t count = call % 40;
      std::vector<std::atomic<int>> done(40);
      std::vector<std::atomic<int>> busy(static_cast<std::size_t>(threads));
      std::atomic<int> overlaps{0};
      pool.run(count, [&](std::int64_t i, int worker) {
        auto& mine = busy[static_cast<std::size_t>(worker)];
        if (mine.fetch_add(1) != 0) ++overlaps;
        ++done[static_cast<std::size_t>(i)];
        mine.fetch_sub(1);
      });
      EXPECT_EQ(overlaps.load(), 0);
      for (std::int64_t i = 0; i < 40; ++i) {
        EXPECT_EQ(done[static_cast<std::size_t>(i)].load(), i < count ? 1 : 0);
      }
    }
  }
}

TEST(ThreadPool, EndsWhileIdle) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(3);
    if (i % 2 == 0) pool.run(3, [](std::int64_t, int) {});
  }
}

} // namespace
