#include "actors/app/bench_routes.hpp"

#include "actors/app/bench_abi.hpp"
#include "actors/plugin_lane.hpp"
#include "schedulers/core/check.hpp"
#include "schedulers/core/rng.hpp"
#include "schedulers/policies/decode_balancer/count_and_kv.hpp"
#include "schedulers/policies/prefill_router/least_work.hpp"
#include "schedulers/policy/questions.hpp"

#include <fmt/format.h>

#include <string>

namespace troupe::app {

namespace {

constexpr std::uint32_t kPrefillRanks = 512;
constexpr std::uint32_t kDecodeRanks = 1024;
constexpr std::int64_t kCalls = 2000;
constexpr std::int64_t kLaneCalls = 400;
constexpr double kGoalRatio = 3;
constexpr double kLaneGoalUs = 100;

std::int64_t some(Rng& rng, std::uint64_t n) { return static_cast<std::int64_t>(rng.below(n)); }

/// A prompt of 3,000 tokens with 1,000 more to come: 63 blocks.
sched::RequestView request() {
  sched::RequestView made;
  made.prompt = 3000;
  made.new_tokens_max = 1000;
  made.work_ps = 30'000'000'000;
  return made;
}

constexpr std::int64_t kBlocks = 63;

template <class Question>
Question question(sched::Role role, std::uint32_t ranks) {
  Question made;
  made.context.step_budget_ps = 100'000'000'000;
  made.context.cost_model = {26'300'000'000, 10'200'000, 16, 0, 67'400'000, 82};
  made.request = request();
  made.ranks = loaded_ranks(role, ranks, kBlocks, 1);
  return made;
}

template <class Question>
BenchCall asked(typename Question::Kind& policy, const Question& question) {
  return [&policy, &question] {
    const auto decision = sched::ask(policy, question);
    TROUPE_CHECK(decision.value, "a rank has room");
    return static_cast<std::int64_t>(raw(decision.value->rank));
  };
}

/// One kind: built in, behind the ABI, through the lane.
template <class Question>
void routes(const std::string& key, const std::string& what, const Question& asking,
            std::int64_t sched::RankView::*field, typename Question::Kind& builtin,
            typename Question::Kind& direct, typename Question::Kind& lane, std::int64_t rounds,
            std::vector<BenchFigure>& out) {
  const BenchCall floor = [&] {
    return static_cast<std::int64_t>(plain_argmin(asking.ranks, kBlocks, field));
  };
  const BenchCall here = asked(builtin, asking);
  const BenchCall behind = asked(direct, asking);
  const BenchCall away = asked(lane, asking);
  TROUPE_CHECK(here() == behind() && here() == away(), "all sides decide alike");
  BenchFigure of_builtin{key, what, "a plain filtered argmin", kGoalRatio};
  measure(of_builtin, rounds, kCalls, here, kCalls, floor);
  BenchFigure of_abi{key + "_abi", what + " behind the ABI", "a plain filtered argmin"};
  measure(of_abi, rounds, kCalls, behind, kCalls, floor);
  BenchFigure of_lane{key + "_lane", what + " through the ABI's lane", "without the lane", 0,
                      kLaneGoalUs};
  measure_wall(of_lane, rounds, kLaneCalls, away, behind);
  out.insert(out.end(), {of_builtin, of_abi, of_lane});
}

} // namespace

std::vector<sched::RankView> loaded_ranks(sched::Role role, std::uint32_t count,
                                          std::int64_t blocks, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<sched::RankView> ranks;
  for (std::uint32_t id = 0; id < count; ++id) {
    sched::RankView rank;
    rank.rank = {RankId{id}, Incarnation{1}};
    rank.role = role;
    rank.block_tokens = 64;
    rank.kv_blocks_total = 20'000;
    rank.kv_blocks_free = rng.below(8) == 0 ? some(rng, static_cast<std::uint64_t>(blocks))
                                            : 2'000 + some(rng, 8'000);
    rank.slots_total = 256;
    rank.slots_free = 1 + some(rng, 200);
    rank.running = rank.slots_total - rank.slots_free;
    rank.context_tokens = (rank.kv_blocks_total - rank.kv_blocks_free) * 60;
    rank.queued = some(rng, 12);
    rank.queued_tokens = rank.queued * 4000;
    rank.uncached_tokens = rank.queued * 900;
    rank.work_ps = 1'000'000'000 * (1 + some(rng, 100'000));
    ranks.push_back(rank);
  }
  return ranks;
}

std::size_t plain_argmin(std::span<const sched::RankView> ranks, std::int64_t blocks,
                         std::int64_t sched::RankView::*key) {
  std::size_t best = ranks.size();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].kv_blocks_free < blocks) continue;
    if (best == ranks.size() || ranks[i].*key < ranks[best].*key) best = i;
  }
  return best;
}

std::vector<BenchFigure> bench_routes(std::int64_t rounds) {
  std::vector<BenchFigure> out;
  const auto prefill = question<sched::RouterQuestion>(sched::Role::prefill, kPrefillRanks);
  sched::LeastWorkRouter router;
  const auto direct_router = router_behind_abi(sched::direct_runner);
  const auto lane_router = router_behind_abi(actors::lane_runner);
  routes("prefill_route", fmt::format("prefill route, {} ranks", kPrefillRanks), prefill,
         &sched::RankView::work_ps, router, *direct_router, *lane_router, rounds, out);
  const auto decode = question<sched::BalancerQuestion>(sched::Role::decode, kDecodeRanks);
  sched::CountAndKvBalancer balancer(sched::RoomOptions{});
  const auto direct_balancer = balancer_behind_abi(sched::direct_runner);
  const auto lane_balancer = balancer_behind_abi(actors::lane_runner);
  routes("decode_route", fmt::format("decode route, {} ranks", kDecodeRanks), decode,
         &sched::RankView::context_tokens, balancer, *direct_balancer, *lane_balancer, rounds, out);
  return out;
}

} // namespace troupe::app
