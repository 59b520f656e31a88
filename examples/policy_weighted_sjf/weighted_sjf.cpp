// Weighted shortest job first: work divided by the weight of its priority, less an advance that
// grows while a request waits.

#include <troupe/troupe_policy.hpp>

namespace {

using namespace troupe::sdk;

constexpr const char* kSchema = R"({"type": "object", "properties": {
  "aging": {"type": "number", "default": 0.1, "minimum": 0.001, "maximum": 1,
    "description": "Work that a unit of waiting is worth.", "x-hot": true},
  "steps_max": {"type": "integer", "default": 4, "minimum": 0, "maximum": 16,
    "description": "Priorities beyond this count as this; each step halves the work.",
    "x-hot": true}}})";

/// Rising (work / 2^priority - aging · waited). Waiting lifts all alike, so a request is overtaken
/// only by those that came within its weighted work divided by aging: nobody starves.
class WeightedSjf final : public Queue {
public:
  explicit WeightedSjf(const Options& options)
      : aging_permille_(options.thousandths("aging", 100)),
        steps_max_(options.integer("steps_max", 4)) {}

  std::uint32_t order(const Requests& waiting, const Call& call, Order& order) override {
    order.by(waiting, [&](const RequestView& request) {
      const std::int64_t waited_us = call.now_us() - request.arrival_us;
      return weighed_us(request) - waited_us / 1'000 * aging_permille_;
    });
    return TROUPE_REASON_IN_ORDER;
  }

private:
  std::int64_t weighed_us(const RequestView& request) const {
    const std::int64_t steps = std::clamp(request.priority, -steps_max_, steps_max_);
    const std::int64_t work_us = request.work_ps / 1'000'000;
    return steps >= 0 ? work_us >> steps : work_us << -steps;
  }

  std::int64_t aging_permille_;
  std::int64_t steps_max_;
};

} // namespace

TROUPE_PLUGIN("policy_weighted_sjf", "1.0.0", policy<WeightedSjf>("weighted_sjf", kSchema));
