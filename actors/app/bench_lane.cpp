#include "actors/app/bench_lane.hpp"

#include "actors/app/bench_abi.hpp"
#include "actors/plugin_lane.hpp"
#include "schedulers/core/check.hpp"
#include "schedulers/policies/decode_balancer/count_and_kv.hpp"
#include "schedulers/policy/questions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace troupe::app {

namespace {

constexpr std::int64_t kCalls = 5'000;
constexpr std::int64_t kIdleCalls = 500;
constexpr std::int64_t kPauseUs = 500;
constexpr std::uint32_t kRanks = 8;

sched::BalancerQuestion sample_question() {
  sched::BalancerQuestion question;
  question.request.prompt = 300;
  question.request.new_tokens_max = 64;
  for (std::uint32_t id = 0; id < kRanks; ++id) {
    sched::RankView rank;
    rank.rank = {RankId{id}, Incarnation{1}};
    rank.role = sched::Role::decode;
    rank.block_tokens = 64;
    rank.kv_blocks_free = rank.kv_blocks_total = 1000;
    rank.slots_free = rank.slots_total = 64;
    rank.running = (id * 5) % kRanks;
    rank.context_tokens = rank.running * 400;
    question.ranks.push_back(rank);
  }
  return question;
}

/// Median time of a call, each one after a pause.
double median_ns(sched::DecodeBalancer& policy, std::int64_t calls, std::int64_t pause_us) {
  const sched::BalancerQuestion question = sample_question();
  std::vector<std::int64_t> taken;
  for (std::int64_t i = 0; i < calls; ++i) {
    if (pause_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
    const auto begin = std::chrono::steady_clock::now();
    const auto decision = sched::ask(policy, question);
    taken.push_back((std::chrono::steady_clock::now() - begin).count());
    TROUPE_CHECK(decision.value && raw(decision.value->rank) == 0, "all sides decide alike");
  }
  std::nth_element(taken.begin(), taken.begin() + calls / 2, taken.end());
  return static_cast<double>(taken[static_cast<std::size_t>(calls / 2)]);
}

} // namespace

LaneBench bench_lane() {
  LaneBench bench;
  bench.calls = kCalls;
  bench.ranks = kRanks;
  bench.pause_us = kPauseUs;
  sched::CountAndKvBalancer builtin(sched::RoomOptions{.headroom_permille = 0});
  const auto direct = balancer_behind_abi(sched::direct_runner);
  const auto lane = balancer_behind_abi(actors::lane_runner);
  bench.builtin_ns = median_ns(builtin, kCalls, 0);
  bench.direct_ns = median_ns(*direct, kCalls, 0);
  bench.lane_ns = median_ns(*lane, kCalls, 0);
  bench.lane_idle_ns = median_ns(*lane, kIdleCalls, kPauseUs);
  return bench;
}

std::string bench_text(const LaneBench& bench) {
  return fmt::format(
      "a decode placement over {} ranks: built in {:.0f} ns, behind the ABI {:.0f} ns, through the "
      "ABI's lane {:.1f} us, ratio {:.1f}; {:.1f} us when the lane sleeps before\n(medians of {} "
      "single calls)\n",
      bench.ranks, bench.builtin_ns, bench.direct_ns, bench.lane_ns / 1000.0, bench.ratio(),
      bench.lane_idle_ns / 1000.0, bench.calls);
}

std::string bench_json(const LaneBench& bench) {
  return fmt::format(R"({{"calls":{},"ranks":{},"builtin_ns":{:.0f},"direct_ns":{:.0f},)"
                     R"("lane_ns":{:.0f},"lane_idle_ns":{:.0f},"pause_us":{},"ratio":{:.2f}}})",
                     bench.calls, bench.ranks, bench.builtin_ns, bench.direct_ns, bench.lane_ns,
                     bench.lane_idle_ns, bench.pause_us, bench.ratio());
}

} // namespace troupe::app
