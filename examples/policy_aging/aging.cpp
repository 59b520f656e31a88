// Priorities that age: waiting lifts a request step by step, so that low ones are served in the
// end.

#include <troupe/troupe_policy.hpp>

namespace {

using namespace troupe::sdk;

constexpr const char* kSchema = R"({"type": "object", "properties": {
  "step_us": {"type": "integer", "default": 5000000, "minimum": 1, "maximum": 1000000000000,
    "description": "Waiting that lifts a request by one priority, in us.", "x-hot": true}}})";

/// By falling (priority + waited / step_us), then by arrival. A request of the lowest priority is
/// first after (highest - lowest) · step_us at the latest, but for those that came before it.
class Aging final : public Queue {
public:
  explicit Aging(const Options& options) : step_us_(options.integer("step_us", 5'000'000)) {}

  std::uint32_t order(const Requests& waiting, const Call& call, Order& order) override {
    order.by(waiting, [&](const RequestView& request) {
      // Priorities beyond a thousand are as good as a thousand: age must be able to reach them.
      const std::int64_t priority =
          std::clamp<std::int64_t>(request.priority, -kPriorityMax, kPriorityMax);
      return -(priority + (call.now_us() - request.arrival_us) / step_us_);
    });
    return TROUPE_REASON_IN_ORDER;
  }

private:
  static constexpr std::int64_t kPriorityMax = 1'000;
  std::int64_t step_us_;
};

} // namespace

TROUPE_PLUGIN("policy_aging", "1.0.0", policy<Aging>("aging", kSchema));
