#include "schedulers/sim/workload.hpp"

#include <algorithm>

namespace troupe::sim {

namespace {

/// -log2(x / 2^32) in units of 2^-16, for 0 < x < 2^32.
std::uint64_t negative_log2(std::uint64_t x) {
  std::uint64_t log = 0;
  while (x < (std::uint64_t{1} << 31)) {
    x <<= 1U;
    log += std::uint64_t{1} << 16;
  }
  // x / 2^31 is in [1, 2): each squaring gives one more binary digit of its logarithm.
  std::uint64_t fraction = 0;
  for (int digit = 15; digit >= 0; --digit) {
    x = (x * x) >> 31U;
    if (x < (std::uint64_t{1} << 32)) continue;
    x >>= 1U;
    fraction |= std::uint64_t{1} << digit;
  }
  return log + (std::uint64_t{1} << 16) - fraction;
}

const std::string& pick_tenant(const std::vector<TenantSpec>& tenants, Rng& rng) {
  std::int64_t total = 0;
  for (const TenantSpec& tenant : tenants)
    total += tenant.share;
  auto at = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(total)));
  for (const TenantSpec& tenant : tenants) {
    if (at < tenant.share) return tenant.name;
    at -= tenant.share;
  }
  return tenants.back().name;
}

void add_habits(const WorkloadSpec& spec, RequestPlan& plan, Rng& rng) {
  if (chance(spec.ends_itself_permille, rng)) {
    plan.answer_tokens = draw_from({1, plan.new_tokens_max}, rng);
  }
  if (chance(spec.abandon_permille, rng)) {
    plan.abandon_at_us = plan.at_us + draw_from(spec.leave_after_us, rng);
  }
  if (chance(spec.stop_permille, rng)) {
    plan.stop_at_us = plan.at_us + draw_from(spec.leave_after_us, rng);
  }
  if (!spec.tenants.empty()) plan.tenant = pick_tenant(spec.tenants, rng);
}

RequestPlan synthetic(const WorkloadSpec& spec, std::int64_t start_us, std::int64_t& last_us,
                      Rng& rng) {
  RequestPlan plan;
  switch (spec.arrivals) {
  case Arrivals::within:
    plan.at_us = start_us + draw_from(spec.window_us, rng);
    break;
  case Arrivals::gaps:
    plan.at_us = last_us += draw_from(spec.gap_us, rng);
    break;
  case Arrivals::poisson:
    plan.at_us = last_us += exponential(draw_from(spec.gap_us, rng), rng);
    break;
  }
  plan.prompt = draw_from(spec.prompt, rng);
  plan.new_tokens_max = draw_from(spec.new_tokens, rng);
  return plan;
}

} // namespace

std::int64_t exponential(std::int64_t mean, Rng& rng) {
  const std::uint64_t x = std::max<std::uint64_t>(1, rng.bits() >> 32U);
  constexpr std::uint64_t kLn2 = 45'426; // ln 2 in units of 2^-16
  const Wide scaled = static_cast<Wide>(negative_log2(x)) * kLn2 * static_cast<std::uint64_t>(mean);
  return static_cast<std::int64_t>(scaled >> 32U);
}

std::vector<RequestPlan> make_workload(const WorkloadSpec& spec, Rng& rng) {
  std::vector<RequestPlan> plans;
  const std::int64_t start_us = draw_from(spec.start_us, rng);
  std::int64_t last_us = start_us;
  if (spec.rows.empty()) {
    const std::int64_t count = draw_from(spec.requests, rng);
    for (std::int64_t i = 0; i < count; ++i)
      plans.push_back(synthetic(spec, start_us, last_us, rng));
  }
  for (const TraceRow& row : spec.rows) {
    RequestPlan plan;
    plan.at_us = start_us + row.at_us;
    plan.prompt = row.prompt;
    plan.new_tokens_max = row.output;
    plans.push_back(std::move(plan));
  }
  for (RequestPlan& plan : plans)
    add_habits(spec, plan, rng);
  std::stable_sort(plans.begin(), plans.end(),
                   [](const RequestPlan& a, const RequestPlan& b) { return a.at_us < b.at_us; });
  std::uint64_t id = 0;
  for (RequestPlan& plan : plans) {
    plan.seed = ++id;
    plan.request = RequestId{id};
  }
  return plans;
}

} // namespace troupe::sim
