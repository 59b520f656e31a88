#include "actors/app/bench_lane.hpp"

#include "actors/plugin_lane.hpp"
#include "schedulers/core/check.hpp"
#include "schedulers/plugin/plugin_policy.hpp"
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

/// The rule of count_and_kv as a library would write it.
std::int32_t place(void* /*self*/, const troupe_balancer_question* question,
                   const troupe_call* call, troupe_placement_answer* answer) {
  std::int64_t best = 0;
  std::size_t chosen = question->ranks.n;
  for (std::size_t i = 0; i < question->ranks.n; ++i) {
    const troupe_rank_view* rank = troupe_rank_at(&question->ranks, i);
    const std::int64_t score =
        call->host->decode_load_ps(call->cost_model, rank->running, rank->context_tokens);
    answer->scores[i] = score;
    if (troupe_has_room(question->request, rank) == 0) continue;
    if (chosen < question->ranks.n && score >= best) continue;
    chosen = i;
    best = score;
  }
  answer->scored = 1;
  answer->reason = TROUPE_REASON_NO_ROOM;
  if (chosen == question->ranks.n) return TROUPE_NONE;
  answer->rank = troupe_rank_at(&question->ranks, chosen)->rank;
  answer->reason = TROUPE_REASON_LOWEST_SCORE;
  return TROUPE_DONE;
}

std::unique_ptr<sched::Policy> behind_abi(const sched::RunnerMaker& runner) {
  static constexpr troupe_decode_balancer table{sizeof(troupe_decode_balancer), 0, place};
  sched::PluginPolicy row{"decode_balancer", "bench", "", {}};
  row.policy.struct_size = sizeof row.policy;
  row.policy.create = [](const char*, std::size_t, char*, std::size_t) -> void* {
    static char self;
    return &self;
  };
  row.policy.destroy = [](void*) {};
  row.policy.table = &table;
  auto made = sched::make_plugin_policy(row, nullptr, "{}", {1'000'000, 60'000}, runner);
  TROUPE_CHECK(made.ok(), "a policy without options is made");
  return std::move(made).value();
}

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
  const auto direct = behind_abi(sched::direct_runner);
  const auto lane = behind_abi(actors::lane_runner);
  auto& direct_balancer = dynamic_cast<sched::DecodeBalancer&>(*direct);
  auto& lane_balancer = dynamic_cast<sched::DecodeBalancer&>(*lane);
  bench.builtin_ns = median_ns(builtin, kCalls, 0);
  bench.direct_ns = median_ns(direct_balancer, kCalls, 0);
  bench.lane_ns = median_ns(lane_balancer, kCalls, 0);
  bench.lane_idle_ns = median_ns(lane_balancer, kIdleCalls, kPauseUs);
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
