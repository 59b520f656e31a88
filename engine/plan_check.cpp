// Checks of a StepPlan, in the order in which later checks rely on earlier ones.

#include "engine/plan_check.hpp"

#include <cmath>
#include <string>
#include <vector>

namespace troupe::engine {

namespace {

std::string text(std::int64_t value) { return std::to_string(value); }

/// Empty when the span lies in an array of `size` entries.
std::string span_problem(const char* name, Span span, std::size_t size) {
  const std::int64_t end = std::int64_t{span.begin} + span.count;
  if (span.begin >= 0 && span.count >= 0 && end <= static_cast<std::int64_t>(size)) return {};
  return std::string(name) + " is [" + text(span.begin) + ", " + text(end) +
         "), expected a range inside [0, " + text(static_cast<std::int64_t>(size)) + ")";
}

std::string range_problem(const char* name, std::int64_t value, std::int64_t end) {
  if (value >= 0 && value < end) return {};
  return std::string(name) + " is " + text(value) + ", expected 0 to " + text(end - 1);
}

std::string sampling_problem(const StepPlan& plan, const SamplingPlan& sampling,
                             std::int64_t vocab) {
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0) {
    return "temperature is " + std::to_string(sampling.temperature) + ", expected 0 or more";
  }
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    return "top_p is " + std::to_string(sampling.top_p) + ", expected more than 0, at most 1";
  }
  if (sampling.top_k < 0) return "top_k is " + text(sampling.top_k) + ", expected 0 or more";
  if (sampling.output_position < 0) {
    return "output_position is " + text(sampling.output_position) + ", expected 0 or more";
  }
  if (sampling.top_logprobs < -1 || sampling.top_logprobs > vocab) {
    return "top_logprobs is " + text(sampling.top_logprobs) + ", expected -1 to the vocabulary";
  }
  std::string problem = span_problem("suppressed", sampling.suppressed, plan.suppressed_ids.size());
  if (!problem.empty()) return problem;
  for (std::int32_t i = 0; i < sampling.suppressed.count; ++i) {
    const auto at = static_cast<std::size_t>(sampling.suppressed.begin + i);
    problem = range_problem("suppressed id", plan.suppressed_ids[at], vocab);
    if (!problem.empty()) return problem;
  }
  return {};
}

/// Walks the sequences of one plan and marks the slots and blocks it has seen.
class PlanWalk {
public:
  PlanWalk(const StepPlan& plan, const PlanLimits& limits,
           std::span<const std::int64_t> slot_length)
      : plan_(plan), limits_(limits), slot_length_(slot_length),
        slot_seen_(static_cast<std::size_t>(limits.slots)),
        block_seen_(static_cast<std::size_t>(limits.blocks)) {}

  std::string sequence_problem(std::size_t i) {
    std::string problem = slot_problem(i);
    if (problem.empty()) problem = token_problem(i);
    if (problem.empty()) problem = block_problem(i);
    if (problem.empty()) problem = logits_problem(i);
    return problem;
  }

  std::int64_t tokens() const { return tokens_; }

private:
  std::string slot_problem(std::size_t i) {
    const std::int64_t slot = raw(plan_.state_slot[i]);
    std::string problem = range_problem("state_slot", slot, limits_.slots);
    if (!problem.empty()) return problem;
    const auto at = static_cast<std::size_t>(slot);
    if (slot_seen_[at]) return "state_slot " + text(slot) + " occurs twice in the plan";
    slot_seen_[at] = true;
    const std::int64_t first = plan_.first_position[i];
    if (first == 0 || first == slot_length_[at]) return {};
    return "first_position is " + text(first) + ", expected 0 or the slot's length " +
           text(slot_length_[at]);
  }

  std::string token_problem(std::size_t i) {
    const Span span = plan_.tokens_of[i];
    std::string problem = span_problem("tokens_of", span, plan_.tokens.size());
    if (!problem.empty()) return problem;
    if (span.count < 1) return "tokens_of has no token, expected at least 1";
    if (span.begin != tokens_) {
      return "tokens_of begins at " + text(span.begin) + ", expected " + text(tokens_) +
             ", the end of the sequence before";
    }
    tokens_ += span.count;
    if (tokens_ > limits_.step_tokens_max) {
      return "the plan has more than step_tokens_max = " + text(limits_.step_tokens_max) +
             " tokens";
    }
    const std::int64_t end = plan_.first_position[i] + span.count;
    if (end > limits_.context_max) {
      return "would hold " + text(end) +
             " tokens, expected at most context_max = " + text(limits_.context_max);
    }
    for (std::int32_t t = 0; t < span.count; ++t) {
      problem = range_problem("token", plan_.tokens[static_cast<std::size_t>(span.begin + t)],
                              limits_.vocab);
      if (!problem.empty()) return problem;
    }
    return {};
  }

  std::string block_problem(std::size_t i) {
    const Span span = plan_.blocks_of[i];
    std::string problem = span_problem("blocks_of", span, plan_.block_table.size());
    if (!problem.empty()) return problem;
    const std::int64_t end = plan_.first_position[i] + plan_.tokens_of[i].count;
    if (span.count < (end + limits_.block_tokens - 1) / limits_.block_tokens) {
      return "has " + text(span.count) + " kv blocks of " + text(limits_.block_tokens) +
             " tokens, expected room for " + text(end);
    }
    for (std::int32_t b = 0; b < span.count; ++b) {
      const std::int64_t block = raw(plan_.block_table[static_cast<std::size_t>(span.begin + b)]);
      problem = range_problem("kv block", block, limits_.blocks);
      if (!problem.empty()) return problem;
      const auto at = static_cast<std::size_t>(block);
      if (block_seen_[at]) return "kv block " + text(block) + " occurs twice in the plan";
      block_seen_[at] = true;
    }
    return {};
  }

  std::string logits_problem(std::size_t i) const {
    const std::int32_t index = plan_.sampling_of[i];
    if (plan_.logits[i] == Logits::none) {
      return index == -1 ? std::string{}
                         : "sampling_of is " + text(index) + ", expected -1 without logits";
    }
    if (plan_.logits[i] != Logits::last) return "logits has an unknown value";
    std::string problem =
        range_problem("sampling_of", index, static_cast<std::int64_t>(plan_.sampling.size()));
    if (!problem.empty()) return problem;
    return sampling_problem(plan_, plan_.sampling[static_cast<std::size_t>(index)], limits_.vocab);
  }

  const StepPlan& plan_;
  const PlanLimits& limits_;
  std::span<const std::int64_t> slot_length_;
  std::vector<bool> slot_seen_;
  std::vector<bool> block_seen_;
  std::int64_t tokens_ = 0;
};

} // namespace

Status check_plan(const StepPlan& plan, const PlanLimits& limits,
                  std::span<const std::int64_t> slot_length) {
  TROUPE_CHECK(std::ssize(slot_length) == limits.slots, "one length for each slot");
  const auto refuse = [&](const std::string& what) {
    return Status{ErrorCode::bad_plan, "step " + std::to_string(plan.step) + ": " + what};
  };
  const std::size_t n = plan.sequences();
  if (plan.first_position.size() != n || plan.tokens_of.size() != n || plan.blocks_of.size() != n ||
      plan.logits.size() != n || plan.sampling_of.size() != n) {
    return refuse("per-sequence arrays differ in length, expected " + std::to_string(n) +
                  " entries in each");
  }
  PlanWalk walk(plan, limits, slot_length);
  for (std::size_t i = 0; i < n; ++i) {
    const std::string problem = walk.sequence_problem(i);
    if (!problem.empty()) return refuse("sequence " + std::to_string(i) + ": " + problem);
  }
  if (walk.tokens() != std::ssize(plan.tokens)) {
    return refuse("has " + std::to_string(plan.tokens.size()) + " tokens, but its sequences take " +
                  text(walk.tokens()));
  }
  return {};
}

} // namespace troupe::engine
