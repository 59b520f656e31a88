// Loopback transport: one ending per transfer, nothing read after release, endpoints in threads.

#include "transport/loopback/loopback.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <thread>

namespace troupe::transport {
namespace {

std::vector<std::byte> pattern(std::size_t n, std::uint8_t start = 1) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i)
    bytes[i] = static_cast<std::byte>(start + i * 7);
  return bytes;
}

std::unique_ptr<Transport> must_open(LoopbackHub& hub, const std::string& name) {
  auto endpoint = hub.open(name);
  EXPECT_TRUE(endpoint.ok());
  return std::move(*endpoint);
}

/// Polls until something ended; a test hangs into its time limit when nothing does.
Completion wait_one(Transport& endpoint) {
  for (;;) {
    auto completions = endpoint.poll();
    if (completions.empty()) continue;
    EXPECT_EQ(completions.size(), 1U);
    return completions.front();
  }
}

TEST(Loopback, ReadsRegionsAtOffsets) {
  LoopbackHub hub;
  const auto source = must_open(hub, "prefill-0");
  const auto target = must_open(hub, "decode-0");
  EXPECT_EQ(source->address(), "loopback:prefill-0");
  const auto a = pattern(100);
  const auto b = pattern(50, 77);
  const RegionId ra = *source->register_region(a);
  const RegionId rb = *source->register_region(b);
  std::vector<std::byte> into_a(30);
  std::vector<std::byte> into_b(50);
  std::vector<std::byte> nothing;
  auto id =
      target->submit(source->address(), {{ra, 70, into_a}, {rb, 0, into_b}, {rb, 50, nothing}});
  ASSERT_TRUE(id.ok());
  const Completion done = wait_one(*target);
  EXPECT_EQ(done.transfer, *id);
  EXPECT_TRUE(done.status.ok()) << done.status.error().message;
  EXPECT_TRUE(std::equal(into_a.begin(), into_a.end(), a.begin() + 70));
  EXPECT_EQ(into_b, b);
  EXPECT_TRUE(target->poll().empty()) << "one ending only";
}

TEST(Loopback, AnEmptyTransferIsDone) {
  LoopbackHub hub;
  const auto one = must_open(hub, "one");
  ASSERT_TRUE(one->submit(one->address(), {}).ok());
  EXPECT_TRUE(wait_one(*one).status.ok());
}

TEST(Loopback, WhatDoesNotExistFailsInTheCompletion) {
  LoopbackHub hub;
  const auto source = must_open(hub, "source");
  const auto other = must_open(hub, "other");
  const auto target = must_open(hub, "target");
  const auto bytes = pattern(10);
  const RegionId region = *source->register_region(bytes);
  std::vector<std::byte> into(10);
  const auto failure = [&](const std::string& peer, RegionId id, std::int64_t offset) {
    EXPECT_TRUE(target->submit(peer, {{id, offset, into}}).ok());
    const Completion done = wait_one(*target);
    EXPECT_EQ(done.status.error().code, ErrorCode::transfer_failed);
    return done.status.error().message;
  };
  EXPECT_NE(failure("loopback:nobody", region, 0).find("no endpoint at loopback:nobody"),
            std::string::npos);
  EXPECT_NE(failure(source->address(), RegionId{999}, 0).find("no region 999"), std::string::npos);
  EXPECT_NE(failure(other->address(), region, 0).find("has no region"), std::string::npos)
      << "a region is read from its owner only";
  EXPECT_NE(failure(source->address(), region, 1).find("10 bytes at offset 1"), std::string::npos);
  EXPECT_NE(failure(source->address(), region, INT64_MAX).find("which has 10"), std::string::npos);
  EXPECT_EQ(target->submit(source->address(), {{region, -1, into}}).error().code,
            ErrorCode::bad_argument);
  EXPECT_FALSE(hub.open("source").ok());
  EXPECT_FALSE(hub.open("").ok());
}

TEST(Loopback, PollCopiesBoundedPieces) {
  LoopbackHub hub({/*piece_bytes=*/3, /*poll_bytes=*/6});
  const auto source = must_open(hub, "source");
  const auto target = must_open(hub, "target");
  const auto bytes = pattern(20);
  const RegionId region = *source->register_region(bytes);
  std::vector<std::byte> into(20);
  ASSERT_TRUE(target->submit(source->address(), {{region, 0, into}}).ok());
  int polls = 1;
  while (target->poll().empty())
    ++polls;
  EXPECT_EQ(polls, 4);
  EXPECT_EQ(into, bytes);
}

TEST(Loopback, ReleaseAndDeathEndARunningTransfer) {
  LoopbackHub hub({3, 3});
  auto source = must_open(hub, "source");
  const auto target = must_open(hub, "target");
  auto bytes = pattern(20);
  const RegionId first = *source->register_region(bytes);
  std::vector<std::byte> into(20);
  ASSERT_TRUE(target->submit(source->address(), {{first, 0, into}}).ok());
  EXPECT_TRUE(target->poll().empty());
  source->deregister_region(first);
  std::ranges::fill(bytes, std::byte{0xEE});
  EXPECT_EQ(wait_one(*target).status.error().code, ErrorCode::transfer_failed);
  EXPECT_EQ(std::count(into.begin(), into.end(), std::byte{0xEE}), 0);
  const RegionId second = *source->register_region(bytes);
  EXPECT_NE(second, first);
  ASSERT_TRUE(target->submit(source->address(), {{second, 0, into}}).ok());
  EXPECT_TRUE(target->poll().empty());
  source.reset();
  EXPECT_NE(wait_one(*target).status.error().message.find("no endpoint"), std::string::npos);
  // A new life under the same name does not have the regions of the old one.
  source = must_open(hub, "source");
  ASSERT_TRUE(target->submit(source->address(), {{second, 0, into}}).ok());
  EXPECT_NE(wait_one(*target).status.error().message.find("no region"), std::string::npos);
}

TEST(Loopback, OnlyTheOwnerReleases) {
  LoopbackHub hub;
  const auto source = must_open(hub, "source");
  const auto target = must_open(hub, "target");
  const auto bytes = pattern(4);
  const RegionId region = *source->register_region(bytes);
  target->deregister_region(region);
  std::vector<std::byte> into(4);
  ASSERT_TRUE(target->submit(source->address(), {{region, 0, into}}).ok());
  EXPECT_TRUE(wait_one(*target).status.ok());
}

TEST(Loopback, CancelEndsAPendingTransferOnly) {
  LoopbackHub hub({2, 2});
  const auto source = must_open(hub, "source");
  const auto target = must_open(hub, "target");
  const auto bytes = pattern(10);
  const RegionId region = *source->register_region(bytes);
  std::vector<std::byte> into(10);
  const TransferId id = *target->submit(source->address(), {{region, 0, into}});
  EXPECT_TRUE(target->poll().empty());
  target->cancel(id);
  into.assign(10, std::byte{0});
  const Completion ended = wait_one(*target);
  EXPECT_EQ(ended.transfer, id);
  EXPECT_EQ(ended.status.error().code, ErrorCode::cancelled);
  EXPECT_EQ(into, std::vector<std::byte>(10)) << "not written after cancel";
  target->cancel(id);
  target->cancel(TransferId{12345});
  EXPECT_TRUE(target->poll().empty());
  const TransferId whole = *target->submit(source->address(), {{region, 0, into}});
  EXPECT_TRUE(wait_one(*target).status.ok());
  target->cancel(whole);
  EXPECT_TRUE(target->poll().empty()) << "it already had its ending";
}

TEST(Loopback, TheHubMayGoFirst) {
  auto hub = std::make_unique<LoopbackHub>();
  const auto source = must_open(*hub, "source");
  const auto target = must_open(*hub, "target");
  hub.reset();
  const auto bytes = pattern(4);
  std::vector<std::byte> into(4);
  ASSERT_TRUE(target->submit(source->address(), {{*source->register_region(bytes), 0, into}}).ok());
  EXPECT_TRUE(wait_one(*target).status.ok());
}

// Two threads read from a third, which releases and frees every region after a while: each read is
// whole or failed, never torn.
TEST(Loopback, ThreadsReadWhileTheOwnerReleases) {
  constexpr int kWholeReads = 100;
  LoopbackHub hub({64, 256});
  const auto source = must_open(hub, "source");
  std::atomic<std::uint64_t> current{0};
  std::atomic<int> running{2};
  std::atomic<int> failed{0};
  std::atomic<int> torn{0};
  const auto reader = [&](const std::string& name) {
    const auto endpoint = must_open(hub, name);
    std::vector<std::byte> into(2048);
    for (int whole = 0; whole < kWholeReads;) {
      const RegionId region{current.load()};
      ASSERT_TRUE(endpoint->submit("loopback:source", {{region, 0, into}}).ok());
      const Completion done = wait_one(*endpoint);
      if (!done.status.ok()) {
        ++failed;
        continue;
      }
      ++whole;
      torn += std::count(into.begin(), into.end(), into[0]) != std::ssize(into);
    }
    --running;
  };
  std::thread one(reader, "one");
  std::thread two(reader, "two");
  std::uint8_t value = 0;
  while (running > 0) {
    auto bytes = std::make_unique<std::vector<std::byte>>(2048, std::byte{++value});
    const RegionId region = *source->register_region(*bytes);
    current = static_cast<std::uint64_t>(region);
    for (int i = 0; i < 50; ++i)
      std::this_thread::yield();
    source->deregister_region(region);
    std::ranges::fill(*bytes, std::byte{0xFF});
    (*bytes)[0] = std::byte{0};
  }
  one.join();
  two.join();
  EXPECT_EQ(torn, 0);
  std::printf("%d reads came too late\n", failed.load());
}

} // namespace
} // namespace troupe::transport
