// A small simulated system in a few lines: ranks, requests, faults.

#pragma once

#include "schedulers/sim/simulator.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace troupe::sim::testing {

constexpr std::int64_t kSecond = 1'000'000;

/// One rank of a test.
struct RankSpec {
  sched::Role role = sched::Role::both;
  std::int64_t kv_blocks = 64;
  std::int64_t slots = 8;
  std::int64_t step_tokens_max = 16;
};

/// Blocks of 4 tokens, a network of 1 us, requests 1, 2, ...
class SimBuilder {
public:
  explicit SimBuilder(const std::vector<RankSpec>& ranks) {
    for (const RankSpec& spec : ranks) {
      sched::RankOptions rank;
      rank.rank.rank = RankId{static_cast<std::uint32_t>(options.ranks.size())};
      rank.role = spec.role;
      rank.name =
          std::string(sched::role_name(spec.role)) + "-" + std::to_string(options.ranks.size());
      rank.kv_blocks = spec.kv_blocks;
      rank.block_tokens = 4;
      rank.slots = spec.slots;
      rank.step_tokens_max = spec.step_tokens_max;
      options.ranks.push_back(std::move(rank));
    }
  }

  RequestPlan& request(std::int64_t at_us, std::int64_t prompt, std::int64_t new_tokens_max) {
    RequestPlan& plan = requests.emplace_back();
    plan.request = RequestId{requests.size()};
    plan.seed = requests.size();
    plan.at_us = at_us;
    plan.prompt = prompt;
    plan.new_tokens_max = new_tokens_max;
    return plan;
  }

  Fault& fault(FaultKind kind, std::uint32_t rank, std::int64_t at_us, std::int64_t for_us = -1) {
    Fault& made = options.faults.emplace_back();
    made.kind = kind;
    made.rank = RankId{rank};
    made.at_us = at_us;
    made.for_us = for_us;
    return made;
  }

  SimOptions options;
  std::vector<RequestPlan> requests;
};

} // namespace troupe::sim::testing
