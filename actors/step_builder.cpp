#include "actors/step_builder.hpp"

#include "schedulers/core/check.hpp"

#include <algorithm>
#include <bit>

namespace troupe::actors {

namespace {

/// @param open  tokens that are drawn before this one and not known yet
engine::SamplingPlan sampling_plan(const SequenceLog& log, const TokenLog& all, std::int64_t open,
                                   engine::StepPlan& plan) {
  const sched::Sampling& wanted = log.work.sampling;
  engine::SamplingPlan out;
  out.temperature = std::bit_cast<float>(wanted.temperature_bits);
  out.top_p = std::bit_cast<float>(wanted.top_p_bits);
  out.top_k = wanted.top_k;
  out.seed = wanted.seed;
  out.output_position = log.answered() + open;
  out.top_logprobs = wanted.top_logprobs;
  out.suppressed.begin = static_cast<std::int32_t>(plan.suppressed_ids.size());
  all.suppressed(log, out.output_position, plan.suppressed_ids);
  out.suppressed.count =
      static_cast<std::int32_t>(plan.suppressed_ids.size()) - out.suppressed.begin;
  return out;
}

void clear(engine::StepPlan& plan) {
  plan.state_slot.clear();
  plan.first_position.clear();
  plan.tokens_of.clear();
  plan.blocks_of.clear();
  plan.logits.clear();
  plan.sampling_of.clear();
  plan.tokens.clear();
  plan.sampling.clear();
  plan.suppressed_ids.clear();
}

} // namespace

void build_plan(const sched::RunStep& step, const TokenLog& log, PlannedStep& out) {
  engine::StepPlan& plan = out.plan;
  clear(plan);
  out.follows.clear();
  plan.step = step.step;
  plan.expert_counts = step.count_experts;
  plan.expert_epoch = step.expert_epoch;
  plan.block_table = step.blocks;
  for (const sched::StepEntry& entry : step.entries) {
    const SequenceLog* sequence = log.find(entry.ref);
    TROUPE_CHECK(sequence != nullptr, "a step of a sequence without token log");
    if (entry.follows) out.follows.push_back(static_cast<std::int32_t>(plan.sequences()));
    const std::int64_t open = entry.first_position + entry.count - sequence->tokens();
    TROUPE_CHECK(open <= (entry.follows ? 1 : 0),
                 "one token at most is open, of a row that follows");
    plan.state_slot.push_back(entry.slot);
    plan.first_position.push_back(entry.first_position);
    plan.tokens_of.push_back(
        {static_cast<std::int32_t>(plan.tokens.size()), static_cast<std::int32_t>(entry.count)});
    for (std::int64_t i = 0; i < entry.count; ++i) {
      const std::int64_t position = entry.first_position + i;
      const bool known = position < sequence->tokens();
      plan.tokens.push_back(known ? sequence->token_at(position) : kOpenToken);
    }
    plan.blocks_of.push_back(
        {static_cast<std::int32_t>(entry.blocks_first), static_cast<std::int32_t>(entry.blocks)});
    plan.logits.push_back(entry.draw ? engine::Logits::last : engine::Logits::none);
    if (entry.draw) {
      const auto sampling = sampling_plan(*sequence, log, std::max<std::int64_t>(0, open), plan);
      plan.sampling_of.push_back(static_cast<std::int32_t>(plan.sampling.size()));
      plan.sampling.push_back(sampling);
    } else {
      plan.sampling_of.push_back(-1);
    }
  }
}

sched::StepDone take_result(const sched::RunStep& step, const engine::StepResult& result,
                            TokenLog& log) {
  sched::StepDone done;
  done.step = step.step;
  done.compute_us = result.compute_us;
  done.expert_epoch = result.expert_epoch;
  done.expert_counts = result.expert_counts;
  done.rows.reserve(step.entries.size());
  for (std::size_t i = 0; i < step.entries.size(); ++i) {
    const sched::StepEntry& entry = step.entries[i];
    sched::StepRow row;
    row.ref = entry.ref;
    row.status = result.status[i];
    row.length = result.length[i];
    row.drew = entry.draw && row.status == ErrorCode::ok && !log.find(entry.ref)->ended;
    if (row.drew) {
      row.token.ref = entry.ref;
      row.token.index = log.find(entry.ref)->answered();
      row.token.token = result.sampled[i];
      row.token.logprob_bits = result.logprob_bits[i];
      const engine::Span top = result.top_of[i];
      for (std::int32_t k = top.begin; k < top.begin + top.count; ++k) {
        row.token.top_tokens.push_back(result.top[static_cast<std::size_t>(k)].token);
        row.token.top_logprob_bits.push_back(result.top[static_cast<std::size_t>(k)].logprob_bits);
      }
      row.token.end = log.draw(entry.ref, row.token.token);
    }
    done.rows.push_back(std::move(row));
  }
  return done;
}

} // namespace troupe::actors
