// The only list of in-tree policies: kind, name, options, default.

#include "schedulers/policies/admission/always.hpp"
#include "schedulers/policies/admission/by_cost.hpp"
#include "schedulers/policies/decode_balancer/count_and_kv.hpp"
#include "schedulers/policies/decode_balancer/least_count.hpp"
#include "schedulers/policies/decode_balancer/least_kv.hpp"
#include "schedulers/policies/decode_balancer/lexicographic_iqr.hpp"
#include "schedulers/policies/handoff/paced.hpp"
#include "schedulers/policies/handoff/whole.hpp"
#include "schedulers/policies/prefill_chunker/fixed.hpp"
#include "schedulers/policies/prefill_chunker/time_budget.hpp"
#include "schedulers/policies/prefill_router/least_work.hpp"
#include "schedulers/policies/prefill_router/round_robin.hpp"
#include "schedulers/policies/queue/fcfs.hpp"
#include "schedulers/policies/queue/sjf.hpp"
#include "schedulers/policies/queue/wait_bound.hpp"
#include "schedulers/policies/queue/weighted_fair.hpp"
#include "schedulers/policies/step/decode_first.hpp"
#include "schedulers/policies/step/prefill_first.hpp"
#include "schedulers/registry/policy_registry.hpp"

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
    constexpr std::int64_t kYearUs = 31'536'000'000'000;
    std::unique_ptr<QueuePolicy> inner = make(table);
    const WaitBoundOptions bound{.max_us = table.integer("wait_bound.max_us", 0, 1, kYearUs)};
    if (Status status = table.finish(); !status.ok()) return status.error();
    if (bound.max_us == 0) return std::unique_ptr<Policy>(std::move(inner));
    return std::unique_ptr<Policy>(std::make_unique<WaitBoundQueue>(std::move(inner), bound));
  };
}

template <class P>
std::unique_ptr<QueuePolicy> plain_queue(OptionTable& /*table*/) {
  return std::make_unique<P>();
}

std::unique_ptr<QueuePolicy> weighted_fair(OptionTable& table) {
  constexpr std::int64_t kHighest = 1'000'000; // 1000.0
  return std::make_unique<WeightedFairQueue>(
      WeightedFairOptions{.weights = table.thousandths_below("weights", 1, kHighest)});
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

} // namespace

void register_builtin_policies(PolicyRegistry& registry) {
  registry.add("admission", "always", plain<AlwaysAdmission>());
  registry.add("admission", "by_cost", with_options<ByCostAdmission>(by_cost_options));
  registry.set_default("admission", "by_cost");

  registry.add("queue", "fcfs", queue_policy(plain_queue<FcfsQueue>));
  registry.add("queue", "sjf", queue_policy(plain_queue<SjfQueue>));
  registry.add("queue", "weighted_fair", queue_policy(weighted_fair));
  registry.set_default("queue", "fcfs");

  registry.add("prefill_router", "round_robin", plain<RoundRobinRouter>());
  registry.add("prefill_router", "least_work", plain<LeastWorkRouter>());
  registry.set_default("prefill_router", "least_work");

  registry.add("prefill_chunker", "fixed", with_options<FixedChunker>(fixed_options));
  registry.add("prefill_chunker", "time_budget",
               with_options<TimeBudgetChunker>(time_budget_options));
  registry.set_default("prefill_chunker", "time_budget");

  registry.add("handoff", "whole", plain<WholeHandoff>());
  registry.add("handoff", "paced", with_options<PacedHandoff>(paced_options));
  registry.set_default("handoff", "whole");

  registry.add("decode_balancer", "count_and_kv", with_options<CountAndKvBalancer>(room_options));
  registry.add("decode_balancer", "least_count", with_options<LeastCountBalancer>(room_options));
  registry.add("decode_balancer", "least_kv", with_options<LeastKvBalancer>(room_options));
  registry.add("decode_balancer", "lexicographic_iqr",
               with_options<LexicographicIqrBalancer>(room_options));
  registry.set_default("decode_balancer", "count_and_kv");

  registry.add("step", "decode_first", plain<DecodeFirstStep>());
  registry.add("step", "prefill_first", plain<PrefillFirstStep>());
  registry.set_default("step", "decode_first");
}

} // namespace troupe::sched
