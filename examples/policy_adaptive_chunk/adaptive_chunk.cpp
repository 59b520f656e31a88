// Chunks that adapt to the workload: long steps for throughput while few prompts wait, short ones
// for everybody's first token when many do.

#include <troupe/troupe_policy.hpp>

namespace {

using namespace troupe::sdk;

constexpr const char* kSchema = R"({"type": "object", "properties": {
  "calm_us": {"type": "integer", "default": 400000, "minimum": 1, "maximum": 1000000000,
    "description": "What a step may take with one prompt, in us.", "x-hot": true},
  "busy_us": {"type": "integer", "default": 50000, "minimum": 1, "maximum": 1000000000,
    "description": "What a step may take with busy_prompts or more, in us.", "x-hot": true},
  "busy_prompts": {"type": "integer", "default": 16, "minimum": 2, "maximum": 100000,
    "description": "Prompts on the rank from which it counts as busy.", "x-hot": true}}})";

constexpr std::int64_t kPicosPerMicro = 1'000'000;

/// The budget falls in a straight line from calm to busy. Prompts are taken in order, each with an
/// equal share of what is left, so that short ones behind a long one are in the same step.
class AdaptiveChunk final : public PrefillChunker {
public:
  explicit AdaptiveChunk(const Options& options)
      : calm_us_(options.integer("calm_us", 400'000)), busy_us_(options.integer("busy_us", 50'000)),
        busy_prompts_(options.integer("busy_prompts", 16)) {}

  Verdict pack(const Question& question, const Call& call, Shares& shares) override {
    const auto prompts = static_cast<std::int64_t>(question.requests.size());
    if (prompts == 0) return Verdict::none(TROUPE_REASON_NOTHING_TO_DO);
    std::int64_t left_ps = budget_us(prompts) * kPicosPerMicro - call.cost_model().step_ps;
    std::int64_t left_tokens = question.step_tokens_max;
    bool cut = false;
    for (std::int64_t i = 0; i < prompts && left_tokens > 0 && left_ps > 0; ++i) {
      const RequestView& request = question.requests[static_cast<std::size_t>(i)];
      const std::int64_t share_ps = left_ps / (prompts - i);
      const std::int64_t fits = call.largest_chunk(share_ps, request.done);
      const std::int64_t tokens = std::min({fits, left_tokens, troupe_remaining(&request)});
      cut = cut || tokens < troupe_remaining(&request);
      if (tokens <= 0) continue;
      shares.add(static_cast<std::size_t>(i), tokens);
      left_tokens -= tokens;
      left_ps -= call.marginal_ps(tokens, request.done);
    }
    if (shares.size() == 0) {
      shares.add(0, 1); // A budget that is too small makes short steps, not a standstill.
      return Verdict::done(TROUPE_REASON_BUDGET_TOO_SMALL);
    }
    return Verdict::done(cut ? TROUPE_REASON_BUDGET_REACHED : TROUPE_REASON_WITHIN_BUDGET);
  }

  std::int64_t step_budget_ps(const CostModel&, const troupe_host&, std::int64_t) const override {
    return std::max(calm_us_, busy_us_) * kPicosPerMicro;
  }

private:
  std::int64_t budget_us(std::int64_t prompts) const {
    const std::int64_t busy = std::min(prompts, busy_prompts_) - 1;
    return calm_us_ + (busy_us_ - calm_us_) * busy / (busy_prompts_ - 1);
  }

  std::int64_t calm_us_;
  std::int64_t busy_us_;
  std::int64_t busy_prompts_;
};

} // namespace

TROUPE_PLUGIN("policy_adaptive_chunk", "1.0.0", policy<AdaptiveChunk>("adaptive_chunk", kSchema));
