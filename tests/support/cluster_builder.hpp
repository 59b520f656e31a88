// Builds the views a policy is asked with, so that a policy test needs no stage and no threads.
//
//   ClusterBuilder().decode_rank(0).kv_blocks_free(8).running(3).decode_rank(1)...

#pragma once

#include "schedulers/core/rng.hpp"
#include "schedulers/model/rank_view.hpp"
#include "schedulers/policy/policy.hpp"

#include <cstdint>
#include <vector>

namespace troupe::sched::testing {

class ClusterBuilder {
public:
  ClusterBuilder& prefill_rank(std::uint32_t id) { return add(id, Role::prefill); }
  ClusterBuilder& decode_rank(std::uint32_t id) { return add(id, Role::decode); }
  ClusterBuilder& both_rank(std::uint32_t id) { return add(id, Role::both); }

  // Each of these is about the rank added last.
  ClusterBuilder& kv_blocks_free(std::int64_t n) { return last().kv_blocks_free = n, *this; }
  ClusterBuilder& kv_blocks_total(std::int64_t n) { return last().kv_blocks_total = n, *this; }
  ClusterBuilder& block_tokens(std::int64_t n) { return last().block_tokens = n, *this; }
  ClusterBuilder& slots_free(std::int64_t n) { return last().slots_free = n, *this; }
  ClusterBuilder& context_max(std::int64_t n) { return last().context_max = n, *this; }
  ClusterBuilder& running(std::int64_t n) { return last().running = n, *this; }
  ClusterBuilder& context_tokens(std::int64_t n) { return last().context_tokens = n, *this; }
  ClusterBuilder& queued(std::int64_t n) { return last().queued = n, *this; }
  ClusterBuilder& work_ps(std::int64_t n) { return last().work_ps = n, *this; }
  ClusterBuilder& draining() { return last().draining = true, *this; }
  ClusterBuilder& held() { return last().held = true, *this; }

  const std::vector<RankView>& ranks() const noexcept { return ranks_; }

private:
  RankView& last() { return ranks_.back(); }
  ClusterBuilder& add(std::uint32_t id, Role role) {
    RankView view;
    view.rank = {RankId{id}, Incarnation{1}};
    view.role = role;
    view.block_tokens = 64;
    view.kv_blocks_free = view.kv_blocks_total = 1'000'000;
    view.slots_free = 100;
    view.slots_total = 200;
    ranks_.push_back(view);
    return *this;
  }

  std::vector<RankView> ranks_;
};

/// A request of `prompt` tokens of which `done` are there already.
inline RequestView request(std::uint64_t id, std::int64_t prompt, std::int64_t done = 0,
                           std::int64_t new_tokens_max = 16) {
  RequestView view;
  view.ref = {RequestId{id}, Attempt{1}};
  view.arrival_us = static_cast<std::int64_t>(id);
  view.prompt = prompt;
  view.done = done;
  view.new_tokens_max = new_tokens_max;
  return view;
}

/// A context with everything a policy may need.
struct ContextBuilder {
  CostModel model;
  Rng rng{1};
  std::int64_t now_us = 0;
  std::int64_t step_budget_ps = 0;

  PolicyContext context() {
    PolicyContext ctx;
    ctx.now_us = now_us;
    ctx.rng = &rng;
    ctx.epoch = PolicyEpoch{1};
    ctx.cost_model = &model;
    ctx.step_budget_ps = step_budget_ps;
    return ctx;
  }
};

/// Profiles of policies.md section 1.2.
inline CostModel sm100_ep4() { return {26'300'000'000, 10'200'000, 16, 0, 67'400'000, 82}; }
inline CostModel sm100_ep4_lin() { return {24'270'000'000, 10'741'000, 0, 0, 67'400'000, 82}; }
inline CostModel h100_tp8() { return {10'200'000'000, 50'200'000, 110, 0, 67'400'000, 82}; }

} // namespace troupe::sched::testing
