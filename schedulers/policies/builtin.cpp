// The only list of in-tree policies: kind, name, options, default.

#include "schedulers/core/hash.hpp"
#include "schedulers/policies/admission/always.hpp"
#include "schedulers/policies/admission/by_cost.hpp"
#include "schedulers/policies/decode_balancer/count_and_kv.hpp"
#include "schedulers/policies/decode_balancer/least_count.hpp"
#include "schedulers/policies/decode_balancer/least_kv.hpp"
#include "schedulers/policies/decode_balancer/lexicographic_iqr.hpp"
#include "schedulers/policies/decode_balancer/normalised_max.hpp"
#include "schedulers/policies/decode_balancer/random.hpp"
#include "schedulers/policies/decode_balancer/round_robin.hpp"
#include "schedulers/policies/decode_balancer/two_choices.hpp"
#include "schedulers/policies/decode_balancer/weighted_sum.hpp"
#include "schedulers/policies/draft_length/all.hpp"
#include "schedulers/policies/draft_length/by_load.hpp"
#include "schedulers/policies/draft_length/released.hpp"
#include "schedulers/policies/expert_placement/eplb.hpp"
#include "schedulers/policies/expert_placement/eplb_refined.hpp"
#include "schedulers/policies/expert_placement/incremental.hpp"
#include "schedulers/policies/expert_placement/window_greedy.hpp"
#include "schedulers/policies/handoff/paced.hpp"
#include "schedulers/policies/handoff/whole.hpp"
#include "schedulers/policies/overlap/one_ahead.hpp"
#include "schedulers/policies/overlap/serial.hpp"
#include "schedulers/policies/prefill_chunker/fixed.hpp"
#include "schedulers/policies/prefill_chunker/time_budget.hpp"
#include "schedulers/policies/prefill_router/least_requests.hpp"
#include "schedulers/policies/prefill_router/least_tokens.hpp"
#include "schedulers/policies/prefill_router/least_uncached.hpp"
#include "schedulers/policies/prefill_router/least_work.hpp"
#include "schedulers/policies/prefill_router/local_cache.hpp"
#include "schedulers/policies/prefill_router/overlap_credit.hpp"
#include "schedulers/policies/prefill_router/random.hpp"
#include "schedulers/policies/prefill_router/round_robin.hpp"
#include "schedulers/policies/prefill_router/session_hash.hpp"
#include "schedulers/policies/prefill_router/staggered.hpp"
#include "schedulers/policies/prefill_router/two_choices.hpp"
#include "schedulers/policies/queue/bucket.hpp"
#include "schedulers/policies/queue/fcfs.hpp"
#include "schedulers/policies/queue/sjf.hpp"
#include "schedulers/policies/queue/slack.hpp"
#include "schedulers/policies/queue/wait_bound.hpp"
#include "schedulers/policies/queue/weighted_fair.hpp"
#include "schedulers/policies/retention/by_class.hpp"
#include "schedulers/policies/retention/lru.hpp"
#include "schedulers/policies/scored/scored_balancer.hpp"
#include "schedulers/policies/scored/scored_router.hpp"
#include "schedulers/policies/step/decode_first.hpp"
#include "schedulers/policies/step/prefill_first.hpp"
#include "schedulers/policies/vision_balancer/least_cost.hpp"
#include "schedulers/policies/vision_balancer/round_robin.hpp"
#include "schedulers/registry/policy_registry.hpp"

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace troupe::sched {
namespace {

/// A factory of a policy that takes no options.
template <class P>
PolicyFactory plain() {
  return [](OptionTable table) -> Result<std::unique_ptr<Policy>> {
    if (Status status = table.finish(); !status.ok()) return status.error();
    return std::unique_ptr<Policy>(std::make_unique<P>());
  };
}

/// A factory of a policy whose options `read` takes from the table.
template <class P, class Read>
PolicyFactory with_options(Read read) {
  return [read](OptionTable table) -> Result<std::unique_ptr<Policy>> {
    const auto options = read(table);
    if (Status status = table.finish(); !status.ok()) return status.error();
    return std::unique_ptr<Policy>(std::make_unique<P>(options));
  };
}

/// A factory of a queue policy made by `make` from the table; any of them takes the wait bound.
template <class Make>
PolicyFactory queue_policy(Make make) {
  return [make](OptionTable table) -> Result<std::unique_ptr<Policy>> {
    std::unique_ptr<Policy> inner = make(table);
    const WaitBoundOptions bound = wait_bound_options(table);
    if (Status status = table.finish(); !status.ok()) return status.error();
    return with_wait_bound(std::move(inner), bound);
  };
}

template <class P>
std::unique_ptr<QueuePolicy> plain_queue(OptionTable& /*table*/) {
  return std::make_unique<P>();
}

std::unique_ptr<QueuePolicy> weighted_fair(OptionTable& table) {
  constexpr std::int64_t kHighest = 1'000'000; // 1000.0
  WeightedFairOptions options;
  for (const auto& [tenant, weight] : table.thousandths_below("weights", 1, kHighest))
    options.weights.emplace(hash64(tenant), weight);
  return std::make_unique<WeightedFairQueue>(std::move(options));
}

std::unique_ptr<QueuePolicy> bucket(OptionTable& table) {
  return std::make_unique<BucketQueue>(
      BucketOptions{.first_us = table.integer("first_us", 50'000, 1, 1'000'000'000),
                    .age_us = table.integer("age_us", 125'000, 1, 1'000'000'000)});
}

std::unique_ptr<QueuePolicy> slack(OptionTable& table) {
  return std::make_unique<SlackQueue>(
      SlackOptions{.slowdown_permille = table.thousandths("slowdown", 5000, 1, 1'000'000)});
}

ByCostOptions by_cost_options(OptionTable& table) {
  return {.margin_permille = table.thousandths("margin", 0, 0, 10'000)};
}

FixedOptions fixed_options(OptionTable& table) {
  return {.budget_tokens = table.integer("budget_tokens", 0, 0, 1LL << 31)};
}

TimeBudgetOptions time_budget_options(OptionTable& table) {
  return {.budget_us = table.integer("budget_us", 100'000, 1, 1'000'000'000),
          .align_tokens = table.integer("align_tokens", 1, 1, 65'536),
          .oldest_permille = table.integer("oldest_permille", 0, 0, 1000)};
}

PacedOptions paced_options(OptionTable& table) {
  return {.of_source_max = table.integer("of_source_max", 1, 1, 65'536),
          .total_max = table.integer("total_max", 0, 0, 65'536)};
}

RoomOptions room_options(OptionTable& table) {
  return {.headroom_permille = table.thousandths("headroom", 20, 0, 500)};
}

LeastWorkOptions least_work_options(OptionTable& table) {
  constexpr std::array<std::string_view, 2> kTies = {"lowest_id", "drawn"};
  return {.ties = static_cast<RouterTies>(table.choice("ties", 0, kTies)),
          .affinity_token_ps = table.integer("affinity_token_ps", 0, 0, 1'000'000'000'000)};
}

LocalCacheOptions local_cache_options(OptionTable& table) {
  return {.threshold_permille = table.thousandths("threshold", 2000, 1, 1'000'000),
          .load_token_ps = table.integer("load_token_ps", 17'800, 0, 1'000'000'000'000)};
}

OverlapCreditOptions overlap_credit_options(OptionTable& table) {
  return {.overlap_credit_permille = table.thousandths("overlap_credit", 1000, 0, 1'000'000),
          .temperature_permille = table.thousandths("temperature", 0, 0, 100'000)};
}

StaggeredOptions staggered_options(OptionTable& table) {
  return {.ahead_us = table.integer("ahead_us", 5000, 0, 1'000'000'000),
          .hold_us_max = table.integer("hold_us_max", 200'000, 0, 1'000'000'000)};
}

TwoChoicesOptions two_choices_options(OptionTable& table) {
  constexpr std::array<std::string_view, 3> kMeasures = {"count", "kv", "count_and_kv"};
  return {.room = room_options(table),
          .by = static_cast<LoadMeasure>(table.choice("by", 0, kMeasures))};
}

WeightedSumOptions weighted_sum_options(OptionTable& table) {
  return {.room = room_options(table),
          .count_permille = table.thousandths("count", 500, 0, 1'000'000),
          .context_permille = table.thousandths("context", 500, 0, 1'000'000)};
}

OneAheadOptions one_ahead_options(OptionTable& table) {
  return {.device_share_min_permille = table.thousandths("device_share_min", 0, 0, 1000)};
}

ByLoadOptions by_load_options(OptionTable& table) {
  constexpr std::array<std::string_view, 2> kSearches = {"throughput", "causal"};
  return {.search = static_cast<DraftSearch>(table.choice("search", 0, kSearches)),
          .learn_permille = table.thousandths("learn", 20, 0, 1000)};
}

EplbRefinedOptions eplb_refined_options(OptionTable& table) {
  return {.exchanges_max = table.integer("exchanges_max", 256, 0, 65'536),
          .ways_max = table.integer("ways_max", 20'000, 0, 1'000'000)};
}

WindowGreedyOptions window_greedy_options(OptionTable& table) {
  return {.window_steps = table.integer("window_steps", 100, 1, 10'000)};
}

IncrementalOptions incremental_options(OptionTable& table) {
  return {.moves_max = table.integer("moves_max", 32, 0, 65'536),
          .gain_min_millionths = 1000 * table.thousandths("gain_min", 1, 0, 1000)};
}

ByClassOptions by_class_options(OptionTable& table) {
  constexpr std::int64_t kYearS = 31'536'000;
  return {.once_ttl_s = table.integer("once_ttl_s", 3'600, 1, kYearS),
          .chat_ttl_s = table.integer("chat_ttl_s", 604'800, 1, kYearS),
          .agent_ttl_s = table.integer("agent_ttl_s", 259'200, 1, kYearS),
          .seen_min = table.integer("seen_min", 2, 1, 1000),
          .units_min = table.integer("units_min", 2, 1, 1000)};
}

void register_routers(PolicyRegistry& registry) {
  const std::string kind = "prefill_router";
  registry.add(kind, "round_robin", plain<RoundRobinRouter>());
  registry.add(kind, "random", plain<RandomRouter>());
  registry.add(kind, "least_requests", plain<LeastRequestsRouter>());
  registry.add(kind, "least_uncached", plain<LeastUncachedRouter>());
  registry.add(kind, "least_tokens", plain<LeastTokensRouter>());
  registry.add(kind, "least_work", with_options<LeastWorkRouter>(least_work_options));
  registry.add(kind, "two_choices", plain<TwoChoicesRouter>());
  registry.add(kind, "session_hash", plain<SessionHashRouter>());
  registry.add(kind, "local_cache", with_options<LocalCacheRouter>(local_cache_options));
  registry.add(kind, "overlap_credit", with_options<OverlapCreditRouter>(overlap_credit_options));
  registry.add(kind, "staggered", with_options<StaggeredRouter>(staggered_options));
  registry.add(kind, "scored", with_options<ScoredRouter>(scored_router_options));
  registry.set_default(kind, "least_work");
}

void register_balancers(PolicyRegistry& registry) {
  const std::string kind = "decode_balancer";
  registry.add(kind, "count_and_kv", with_options<CountAndKvBalancer>(room_options));
  registry.add(kind, "lexicographic_iqr", with_options<LexicographicIqrBalancer>(room_options));
  registry.add(kind, "normalised_max", with_options<NormalisedMaxBalancer>(room_options));
  registry.add(kind, "weighted_sum", with_options<WeightedSumBalancer>(weighted_sum_options));
  registry.add(kind, "two_choices", with_options<TwoChoicesBalancer>(two_choices_options));
  registry.add(kind, "least_count", with_options<LeastCountBalancer>(room_options));
  registry.add(kind, "least_kv", with_options<LeastKvBalancer>(room_options));
  registry.add(kind, "round_robin", with_options<RoundRobinBalancer>(room_options));
  registry.add(kind, "random", with_options<RandomBalancer>(room_options));
  registry.add(kind, "scored", with_options<ScoredBalancer>(scored_balancer_options));
  registry.set_default(kind, "count_and_kv");
}

void register_expert_placements(PolicyRegistry& registry) {
  const std::string kind = "expert_placement";
  registry.add(kind, "eplb", plain<EplbPlacement>());
  registry.add(kind, "eplb_refined", with_options<EplbRefinedPlacement>(eplb_refined_options));
  registry.add(kind, "window_greedy", with_options<WindowGreedyPlacement>(window_greedy_options));
  registry.add(kind, "incremental", with_options<IncrementalPlacement>(incremental_options));
  registry.set_default(kind, "incremental");
}

/// Kinds that are complete and tested, and that no stage asks yet.
void register_kinds_without_stage(PolicyRegistry& registry) {
  registry.add("draft_length", "all", plain<AllDrafts>());
  registry.add("draft_length", "by_load", with_options<ByLoadDrafts>(by_load_options));
  registry.add("draft_length", "released", plain<ReleasedDrafts>());
  registry.set_default("draft_length", "by_load");

  registry.add("retention", "lru", plain<LruRetention>());
  registry.add("retention", "by_class", with_options<ByClassRetention>(by_class_options));
  registry.set_default("retention", "by_class");

  registry.add("vision_balancer", "round_robin", plain<RoundRobinVision>());
  registry.add("vision_balancer", "least_cost", plain<LeastCostVision>());
  registry.set_default("vision_balancer", "least_cost");

  for (const char* kind : {"draft_length", "retention", "vision_balancer"})
    registry.set_without_stage(kind);
}

} // namespace

void register_builtin_policies(PolicyRegistry& registry) {
  registry.add("admission", "always", plain<AlwaysAdmission>());
  registry.add("admission", "by_cost", with_options<ByCostAdmission>(by_cost_options));
  registry.set_default("admission", "by_cost");

  registry.add("queue", "fcfs", queue_policy(plain_queue<FcfsQueue>));
  registry.add("queue", "sjf", queue_policy(plain_queue<SjfQueue>));
  registry.add("queue", "bucket", queue_policy(bucket));
  registry.add("queue", "slack", queue_policy(slack));
  registry.add("queue", "weighted_fair", queue_policy(weighted_fair));
  registry.set_default("queue", "fcfs");

  register_routers(registry);

  registry.add("prefill_chunker", "fixed", with_options<FixedChunker>(fixed_options));
  registry.add("prefill_chunker", "time_budget",
               with_options<TimeBudgetChunker>(time_budget_options));
  registry.set_default("prefill_chunker", "time_budget");

  registry.add("handoff", "whole", plain<WholeHandoff>());
  registry.add("handoff", "paced", with_options<PacedHandoff>(paced_options));
  registry.set_default("handoff", "whole");

  register_balancers(registry);

  registry.add("step", "decode_first", plain<DecodeFirstStep>());
  registry.add("step", "prefill_first", plain<PrefillFirstStep>());
  registry.set_default("step", "decode_first");

  registry.add("overlap", "serial", plain<SerialOverlap>());
  registry.add("overlap", "one_ahead", with_options<OneAheadOverlap>(one_ahead_options));
  registry.set_default("overlap", "serial");

  register_expert_placements(registry);

  register_kinds_without_stage(registry);
}

} // namespace troupe::sched
