// Residual shortest job first: what is still to do counts, of the prompt and of the answer.

#include <troupe/troupe_policy.hpp>

namespace {

using namespace troupe::sdk;

constexpr const char* kSchema = R"({"type": "object", "properties": {
  "answer_weight": {"type": "number", "default": 1.0, "minimum": 0, "maximum": 10,
    "description": "What the rest of the answer counts beside 1 for the prompt.", "x-hot": true},
  "patience_us": {"type": "integer", "default": 60000000, "minimum": 1, "maximum": 1000000000000,
    "description": "Who has waited so long goes before shorter ones, in us.", "x-hot": true}}})";

/// A request that was preempted late in its answer has little left, and goes before a fresh one of
/// the same length: what was paid for is finished first.
class ResidualSjf final : public Queue {
public:
  explicit ResidualSjf(const Options& options)
      : answer_permille_(options.thousandths("answer_weight", 1'000)),
        patience_us_(options.integer("patience_us", 60'000'000)) {}

  std::uint32_t order(const Requests& waiting, const Call& call, Order& order) override {
    order.by(waiting, [&](const RequestView& request) {
      const bool waited = call.now_us() - request.arrival_us >= patience_us_;
      return waited ? std::int64_t{-1} : residual_us(request, call.cost_model());
    });
    return TROUPE_REASON_IN_ORDER;
  }

private:
  /// The expected answer when it is known, else a quarter of what is allowed.
  static std::int64_t tokens_to_come(const RequestView& request) {
    const std::int64_t known = request.expected_p50;
    const std::int64_t expected = known > 0 ? known : request.new_tokens_max / 4;
    const std::int64_t most = std::min(expected, request.new_tokens_max);
    return std::max<std::int64_t>(1, most - request.answered);
  }

  std::int64_t residual_us(const RequestView& request, const CostModel& model) const {
    const std::int64_t token_us = model.sequence_ps / 1'000'000;
    // More than 2^31 tokens are as endless as 2^31.
    const std::int64_t tokens = std::min(tokens_to_come(request), std::int64_t{1} << 31);
    const std::int64_t answer_us = tokens * std::min(token_us, std::int64_t{1'000'000});
    return add(request.work_ps / 1'000'000, answer_us / 1'000 * answer_permille_);
  }

  std::int64_t answer_permille_;
  std::int64_t patience_us_;
};

} // namespace

TROUPE_PLUGIN("policy_residual_sjf", "1.0.0", policy<ResidualSjf>("residual_sjf", kSchema));
