#include "schedulers/policies/queue/weighted_fair.hpp"

#include "schedulers/model/queue_estimate.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <sstream>
#include <tuple>
#include <vector>

namespace troupe::sched {
namespace {

constexpr std::int64_t kWeightOne = 1000;
/// Counters are taken down by the floor once that is reached, and one request costs at most so
/// much: sums stay far inside int64.
constexpr std::int64_t kCounterMax = std::numeric_limits<std::int64_t>::max() / 8;

} // namespace

std::int64_t WeightedFairQueue::cost_of(const RequestView& request,
                                        const PolicyContext& ctx) const {
  if (raw(request.ref.attempt) > 1) return 0;
  const std::int64_t answer =
      std::max<std::int64_t>(0, (request.claim.expected_p50 > 0
                                     ? std::min(request.claim.expected_p50, request.new_tokens_max)
                                     : request.new_tokens_max) -
                                    request.answered);
  const std::int64_t context = request.total() + answer / 2; // Mean over the answer.
  std::int64_t decode_ps = ctx.cost_model->decode_load_ps(1, context);
  decode_ps = answer == 0 ? 0 : decode_ps > kCounterMax / answer ? kCounterMax : decode_ps * answer;
  const std::int64_t work_ps = add_saturated(request.work_ps, decode_ps);
  const auto found = options_.weights.find(request.tenant_hash);
  const std::int64_t weight = found == options_.weights.end() ? kWeightOne : found->second;
  return std::min(kCounterMax, std::max<std::int64_t>(1, work_ps / weight));
}

WeightedFairQueue::Account& WeightedFairQueue::account(std::uint64_t tenant) {
  const auto found = accounts_.find(tenant);
  if (found != accounts_.end()) return found->second;
  if (accounts_.size() >= kAccountsMax) forget_idle();
  return accounts_.emplace(tenant, Account{floor_, 0}).first->second;
}

std::int64_t WeightedFairQueue::counter(std::uint64_t tenant) const {
  const auto found = accounts_.find(tenant);
  return found == accounts_.end() ? floor_ : found->second.counter;
}

void WeightedFairQueue::lift_floor() {
  bool backlog = false;
  std::int64_t lowest = 0;
  for (const auto& [tenant, entry] : accounts_) {
    if (entry.waiting <= 0) continue;
    lowest = backlog ? std::min(lowest, entry.counter) : entry.counter;
    backlog = true;
  }
  if (backlog) floor_ = std::max(floor_, lowest);
  if (floor_ < kCounterMax) return;
  for (auto& [tenant, entry] : accounts_)
    entry.counter = std::max<std::int64_t>(0, entry.counter - floor_);
  floor_ = 0;
}

void WeightedFairQueue::forget_idle() {
  std::vector<std::pair<std::int64_t, std::uint64_t>> idle;
  for (const auto& [tenant, entry] : accounts_) {
    if (entry.waiting <= 0) idle.emplace_back(entry.counter, tenant);
  }
  // Those at the floor lose nothing; of the others the lowest go first.
  std::sort(idle.begin(), idle.end());
  const std::size_t surplus = std::max<std::size_t>(1, idle.size() / 2);
  for (std::size_t i = 0; i < idle.size() && (i < surplus || idle[i].first <= floor_); ++i)
    accounts_.erase(idle[i].second);
}

void WeightedFairQueue::observe(const RequestView& request, QueueEvent event,
                                const PolicyContext& ctx) noexcept {
  lift_floor();
  Account& entry = account(request.tenant_hash);
  switch (event) {
  case QueueEvent::entered:
    if (entry.waiting == 0) entry.counter = std::max(entry.counter, floor_);
    ++entry.waiting;
    break;
  case QueueEvent::served:
    --entry.waiting;
    entry.counter += cost_of(request, ctx);
    break;
  case QueueEvent::returned:
    ++entry.waiting;
    entry.counter = std::max<std::int64_t>(0, entry.counter - cost_of(request, ctx));
    break;
  case QueueEvent::left:
    --entry.waiting;
    break;
  }
}

Decision<Order> WeightedFairQueue::order(std::span<const RequestView> waiting,
                                         const PolicyContext& ctx) noexcept {
  std::vector<std::uint32_t> by_arrival(waiting.size());
  std::iota(by_arrival.begin(), by_arrival.end(), 0U);
  std::sort(by_arrival.begin(), by_arrival.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(waiting[a].arrival_us, waiting[a].ref) <
           std::tie(waiting[b].arrival_us, waiting[b].ref);
  });
  // The queues of the tenants, each with a copy of its counter that the ordered requests charge.
  struct Line {
    std::int64_t counter = 0;
    std::vector<std::uint32_t> requests;
    std::size_t next = 0;
  };
  std::map<std::uint64_t, Line> lines;
  std::vector<std::size_t> rank(waiting.size()); // Place by arrival.
  for (std::size_t i = 0; i < by_arrival.size(); ++i) {
    rank[by_arrival[i]] = i;
    Line& line = lines[waiting[by_arrival[i]].tenant_hash];
    line.requests.push_back(by_arrival[i]);
  }
  using Turn = std::tuple<std::int64_t, std::size_t, std::uint64_t>;
  std::set<Turn> turns; // Lowest counter, then earliest head.
  for (auto& [tenant, line] : lines) {
    line.counter = counter(tenant);
    turns.emplace(line.counter, rank[line.requests.front()], tenant);
  }
  Order order;
  order.positions.reserve(waiting.size());
  while (!turns.empty()) {
    Line& line = lines.at(std::get<2>(*turns.begin()));
    const std::uint64_t tenant = std::get<2>(*turns.begin());
    turns.erase(turns.begin());
    const std::uint32_t chosen = line.requests[line.next++];
    order.positions.push_back(chosen);
    line.counter = add_saturated(line.counter, cost_of(waiting[chosen], ctx));
    if (line.next < line.requests.size()) {
      turns.emplace(line.counter, rank[line.requests[line.next]], tenant);
    }
  }
  return {std::move(order), lines.size() == 1 ? Reason::in_order : Reason::fair_share};
}

std::string WeightedFairQueue::export_state() const {
  std::ostringstream out;
  out << floor_ << '\n';
  for (const auto& [tenant, entry] : accounts_) {
    out << entry.counter << ' ' << entry.waiting << ' ' << tenant << '\n';
  }
  return out.str();
}

void WeightedFairQueue::import_state(const std::string& state) {
  std::istringstream in(state);
  std::int64_t floor = 0;
  if (!(in >> floor) || floor < 0) return;
  std::map<std::uint64_t, Account> read;
  Account entry;
  std::uint64_t tenant = 0;
  while (in >> entry.counter >> entry.waiting >> tenant) {
    if (entry.counter < 0 || entry.waiting < 0) return;
    read.emplace(tenant, entry);
  }
  floor_ = floor;
  accounts_ = std::move(read);
}

} // namespace troupe::sched
