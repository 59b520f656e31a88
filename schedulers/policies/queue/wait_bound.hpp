// Wraps any queue policy: who waited long enough goes first, whatever the policy says.

#pragma once

#include "schedulers/core/options.hpp"
#include "schedulers/policy/queue_policy.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace troupe::sched {

struct WaitBoundOptions {
  /// A request that arrived so long ago goes before those the inner policy prefers.
  /// Unit: us. Default 0 = no bound. Range 1 to 31536000000000. Hot: yes.
  std::int64_t max_us = 0;
};

/// Requests beyond the bound by arrival of the first attempt, then id; the others behind them as
/// the inner policy orders them.
///
/// A request is therefore served at the latest when all that arrived before it and the room it
/// needs are served, plus the bound.
class WaitBoundQueue final : public QueuePolicy {
public:
  /// @pre inner is not null, max_us >= 1
  WaitBoundQueue(std::unique_ptr<QueuePolicy> inner, const WaitBoundOptions& options)
      : inner_(std::move(inner)), options_(options) {}

  Decision<Order> order(std::span<const RequestView> waiting,
                        const PolicyContext& ctx) noexcept override;
  void observe(const RequestView& request, QueueEvent event,
               const PolicyContext& ctx) noexcept override {
    inner_->observe(request, event, ctx);
  }
  std::string export_state() const override { return inner_->export_state(); }
  void import_state(const std::string& state) override { inner_->import_state(state); }
  std::string failure() const override { return inner_->failure(); }

private:
  std::unique_ptr<QueuePolicy> inner_;
  WaitBoundOptions options_;
};

/// Reads wait_bound.max_us of a queue's table.
WaitBoundOptions wait_bound_options(OptionTable& table);

/// `policy` with the bound around it; itself when there is no bound.
/// @pre with a bound, it is a QueuePolicy
std::unique_ptr<Policy> with_wait_bound(std::unique_ptr<Policy> policy,
                                        const WaitBoundOptions& options);

} // namespace troupe::sched
