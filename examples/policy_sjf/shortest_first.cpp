// Shortest job first with patience: the least prefill work first, but nobody waits for ever.

#include <troupe/troupe_policy.hpp>

namespace {

using namespace troupe::sdk;

constexpr const char* kSchema = R"({"type": "object", "properties": {
  "patience_us": {"type": "integer", "default": 30000000, "minimum": 1, "maximum": 1000000000000,
    "description": "Who has waited so long goes before shorter ones, in us.", "x-hot": true}}})";

/// Those out of patience by arrival, then the others by work.
class ShortestFirst final : public Queue {
public:
  explicit ShortestFirst(const Options& options)
      : patience_us_(options.integer("patience_us", 30'000'000)) {}

  std::uint32_t order(const Requests& waiting, const Call& call, Order& order) override {
    bool someone = false;
    order.by(waiting, [&](const RequestView& request) {
      const bool waited = call.now_us() - request.arrival_us >= patience_us_;
      someone = someone || waited;
      // Equal keys go by arrival.
      return waited ? std::int64_t{-1} : request.work_ps;
    });
    return someone ? TROUPE_REASON_WAITED_LONGEST : TROUPE_REASON_IN_ORDER;
  }

private:
  std::int64_t patience_us_;
};

} // namespace

TROUPE_PLUGIN("policy_sjf", "1.0.0", policy<ShortestFirst>("shortest_first", kSchema));
