// Service levels by priority: each tier has a target, and who is due first goes first.

#include <troupe/troupe_policy.hpp>

namespace {

using namespace troupe::sdk;

constexpr const char* kSchema = R"({"type": "object", "properties": {
  "interactive_us": {"type": "integer", "default": 500000, "minimum": 0, "maximum": 1000000000000,
    "description": "Target of priority 1 and above, from arrival, in us.", "x-hot": true},
  "standard_us": {"type": "integer", "default": 5000000, "minimum": 0, "maximum": 1000000000000,
    "description": "Target of priority 0, from arrival, in us.", "x-hot": true},
  "bulk_us": {"type": "integer", "default": 120000000, "minimum": 0, "maximum": 1000000000000,
    "description": "Target of priority -1 and below, from arrival, in us.", "x-hot": true}}})";

/// Earliest due first. A due time is fixed at arrival, so a bulk request overtakes interactive ones
/// that come `bulk_us - interactive_us` later: no tier starves.
class SlaTiers final : public Queue {
public:
  explicit SlaTiers(const Options& options)
      : interactive_us_(options.integer("interactive_us", 500'000)),
        standard_us_(options.integer("standard_us", 5'000'000)),
        bulk_us_(options.integer("bulk_us", 120'000'000)) {}

  std::uint32_t order(const Requests& waiting, const Call&, Order& order) override {
    order.by(waiting, [&](const RequestView& request) {
      const std::int64_t due_us = add(request.arrival_us, target_us(request.priority));
      // A deadline of the request's own only makes it more urgent.
      return request.deadline_us != 0 ? std::min(due_us, request.deadline_us) : due_us;
    });
    return TROUPE_REASON_IN_ORDER;
  }

private:
  std::int64_t target_us(std::int64_t priority) const {
    return priority > 0 ? interactive_us_ : priority < 0 ? bulk_us_ : standard_us_;
  }

  std::int64_t interactive_us_;
  std::int64_t standard_us_;
  std::int64_t bulk_us_;
};

} // namespace

TROUPE_PLUGIN("policy_sla_tiers", "1.0.0", policy<SlaTiers>("sla_tiers", kSchema));
