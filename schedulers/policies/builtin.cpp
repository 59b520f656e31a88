// The only list of in-tree policies: kind, name, options, default.

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
#include "schedulers/policies/handoff/paced.hpp"
#include "schedulers/policies/handoff/whole.hpp"
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
#include "schedulers/policies/queue/fcfs.hpp"
#include "schedulers/policies/queue/sjf.hpp"
#include "schedulers/policies/step/decode_first.hpp"
#include "schedulers/policies/step/prefill_first.hpp"
#include "schedulers/registry/policy_registry.hpp"

#include <array>
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

ByCostOptions by_cost_options(OptionTable& table) {
  return {.margin_permille = table.thousandths("margin", 0, 0, 10'000)};
}

FixedOptions fixed_options(OptionTable& table) {
  return {.budget_tokens = table.integer("budget_tokens", 0, 0, 1LL << 31)};
}

TimeBudgetOptions time_budget_options(OptionTable& table) {
  return {.budget_us = table.integer("budget_us", 100'000, 1, 1'000'000'000),
          .align_tokens = table.integer("align_tokens", 1, 1, 65'536)};
}

PacedOptions paced_options(OptionTable& table) {
  return {.of_source_max = table.integer("of_source_max", 1, 1, 65'536),
          .total_max = table.integer("total_max", 0, 0, 65'536)};
}

RoomOptions room_options(OptionTable& table) {
  return {.headroom_permille = table.thousandths("headroom", 20, 0, 500)};
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

void register_routers(PolicyRegistry& registry) {
  const std::string kind = "prefill_router";
  registry.add(kind, "round_robin", plain<RoundRobinRouter>());
  registry.add(kind, "random", plain<RandomRouter>());
  registry.add(kind, "least_requests", plain<LeastRequestsRouter>());
  registry.add(kind, "least_uncached", plain<LeastUncachedRouter>());
  registry.add(kind, "least_tokens", plain<LeastTokensRouter>());
  registry.add(kind, "least_work", plain<LeastWorkRouter>());
  registry.add(kind, "two_choices", plain<TwoChoicesRouter>());
  registry.add(kind, "session_hash", plain<SessionHashRouter>());
  registry.add(kind, "local_cache", with_options<LocalCacheRouter>(local_cache_options));
  registry.add(kind, "overlap_credit", with_options<OverlapCreditRouter>(overlap_credit_options));
  registry.add(kind, "staggered", with_options<StaggeredRouter>(staggered_options));
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
  registry.set_default(kind, "count_and_kv");
}

} // namespace

void register_builtin_policies(PolicyRegistry& registry) {
  registry.add("admission", "always", plain<AlwaysAdmission>());
  registry.add("admission", "by_cost", with_options<ByCostAdmission>(by_cost_options));
  registry.set_default("admission", "by_cost");

  registry.add("queue", "fcfs", plain<FcfsQueue>());
  registry.add("queue", "sjf", plain<SjfQueue>());
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
}

} // namespace troupe::sched
