// Equal shares of work between tenants: a counter a tenant, the lowest one is served next.
//
// A thousand requests of one tenant hold up another one's single request by at most one of them.

#pragma once

#include "schedulers/policy/queue_policy.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace troupe::sched {

struct WeightedFairOptions {
  /// Share of a tenant relative to the others, in thousandths; a tenant that is not named has 1.
  /// Unit: thousandths (written as numbers, weights = { a = 2 }). Default: none named.
  /// Range 0.001 to 1000. Hot: yes.
  /// By hash64 of the tenant's name.
  std::map<std::uint64_t, std::int64_t> weights;
};

/// Serves the backlogged tenant with the lowest counter; within a tenant by arrival, then id.
///
/// A request that is given a rank costs its tenant the work it brings (prefill, and the expected
/// answer's decode steps) divided by the weight. A tenant that comes back from idle is lifted to
/// the lowest counter of the backlogged ones: nobody saves up while away. Later attempts of a
/// request cost nothing: the tenant paid for the first one.
/// Source: policies.md section 8, fairness.
class WeightedFairQueue final : public QueuePolicy {
public:
  explicit WeightedFairQueue(WeightedFairOptions options) : options_(std::move(options)) {}

  Decision<Order> order(std::span<const RequestView> waiting,
                        const PolicyContext& ctx) noexcept override;
  void observe(const RequestView& request, QueueEvent event,
               const PolicyContext& ctx) noexcept override;

  /// Counters as text, one tenant a line.
  std::string export_state() const override;
  void import_state(const std::string& state) override;

  /// What a tenant was served so far. Unit: ps of work by thousandths of weight; only differences
  /// mean something.
  std::int64_t counter(std::uint64_t tenant_hash) const;
  /// Tenants it keeps a counter of.
  std::int64_t tenants() const noexcept { return static_cast<std::int64_t>(accounts_.size()); }

private:
  struct Account {
    std::int64_t counter = 0;
    std::int64_t waiting = 0; ///< Requests in the queue.
  };
  /// Idle tenants are forgotten when more than so many are known.
  static constexpr std::size_t kAccountsMax = 4096;

  std::int64_t cost_of(const RequestView& request, const PolicyContext& ctx) const;
  Account& account(std::uint64_t tenant_hash);
  void lift_floor();
  void forget_idle();

  WeightedFairOptions options_;
  std::map<std::uint64_t, Account> accounts_; ///< By tenant_hash.
  std::int64_t floor_ = 0; ///< Lowest counter of a backlogged tenant, as last seen.
};

} // namespace troupe::sched
