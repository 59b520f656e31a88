#include "engine/bench.hpp"

#include "engine/kv/layout.hpp"
#include "engine/manifest.hpp"
#include "engine/model/weights.hpp"
#include "schedulers/core/rng.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace troupe::engine {

namespace {

constexpr std::uint64_t kSeed = 1;

/// One engine with its sequences; sequence i has slot i and its own stretch of blocks.
class Bench {
public:
  Bench(Engine& engine, const BenchOptions& options, std::int64_t blocks_each)
      : engine_(engine), options_(options), blocks_each_(blocks_each),
        last_(static_cast<std::size_t>(options.sequences), 0) {}

  Status prefill(BenchResult& result);
  Status decode(BenchResult& result);

private:
  void add(StepPlan& plan, std::int64_t sequence, std::int64_t first, std::int64_t count,
           bool sample) const;
  std::int32_t made_up_token(std::int64_t sequence, std::int64_t position) const;

  Engine& engine_;
  const BenchOptions& options_;
  std::int64_t blocks_each_;
  std::vector<std::int32_t> last_; ///< Newest token of each sequence.
};

std::int32_t Bench::made_up_token(std::int64_t sequence, std::int64_t position) const {
  const auto vocab = static_cast<std::uint64_t>(engine_.model().vocab);
  const auto counter = static_cast<std::uint64_t>(sequence * options_.prompt_tokens + position);
  return static_cast<std::int32_t>(draw(kSeed, counter, Purpose::sampling) % vocab);
}

void Bench::add(StepPlan& plan, std::int64_t sequence, std::int64_t first, std::int64_t count,
                bool sample) const {
  plan.state_slot.push_back(static_cast<StateSlotId>(sequence));
  plan.first_position.push_back(first);
  plan.tokens_of.push_back(
      {static_cast<std::int32_t>(plan.tokens.size()), static_cast<std::int32_t>(count)});
  plan.blocks_of.push_back({static_cast<std::int32_t>(plan.block_table.size()),
                            static_cast<std::int32_t>(blocks_each_)});
  for (std::int64_t b = 0; b < blocks_each_; ++b) {
    plan.block_table.push_back(static_cast<KvBlockId>(sequence * blocks_each_ + b));
  }
  plan.logits.push_back(sample ? Logits::last : Logits::none);
  plan.sampling_of.push_back(sample ? static_cast<std::int32_t>(plan.sampling.size()) : -1);
  if (sample) plan.sampling.push_back(SamplingPlan{.temperature = 0.0F});
}

Status Bench::prefill(BenchResult& result) {
  std::int64_t sequence = 0;
  std::int64_t position = 0;
  while (sequence < options_.sequences) {
    StepPlan plan;
    std::vector<std::int64_t> finished;
    while (sequence < options_.sequences) {
      const std::int64_t room =
          options_.engine.step_tokens_max - static_cast<std::int64_t>(plan.tokens.size());
      const std::int64_t count = std::min(room, options_.prompt_tokens - position);
      if (count == 0) break;
      const bool last = position + count == options_.prompt_tokens;
      add(plan, sequence, position, count, last);
      for (std::int64_t i = 0; i < count; ++i) {
        plan.tokens.push_back(made_up_token(sequence, position + i));
      }
      finished.push_back(last ? sequence : -1);
      position += count;
      if (!last) break;
      ++sequence;
      position = 0;
    }
    Result<StepResult> step = engine_.step(plan);
    if (!step.ok()) return step.status();
    for (std::size_t i = 0; i < finished.size(); ++i) {
      if (finished[i] < 0) continue;
      if (step->status[i] != ErrorCode::ok) return {step->status[i], "prefill step failed"};
      last_[static_cast<std::size_t>(finished[i])] = step->sampled[i];
    }
    result.prefill_tokens += static_cast<std::int64_t>(plan.tokens.size());
    result.prefill_us += step->compute_us;
  }
  return {};
}

Status Bench::decode(BenchResult& result) {
  for (std::int64_t i = 0; i < options_.new_tokens; ++i) {
    StepPlan plan;
    for (std::int64_t s = 0; s < options_.sequences; ++s) {
      add(plan, s, options_.prompt_tokens + i, 1, true);
      plan.tokens.push_back(last_[static_cast<std::size_t>(s)]);
    }
    Result<StepResult> step = engine_.step(plan);
    if (!step.ok()) return step.status();
    for (std::size_t s = 0; s < last_.size(); ++s) {
      if (step->status[s] != ErrorCode::ok) return {step->status[s], "decode step failed"};
      last_[s] = step->sampled[s];
    }
    result.decode_tokens += options_.sequences;
    result.decode_us += step->compute_us;
    result.step_us_max = std::max(result.step_us_max, step->compute_us);
  }
  return {};
}

} // namespace

Result<BenchResult> bench_engine(std::shared_ptr<const Weights> weights,
                                 const BenchOptions& options) {
  const std::int64_t positions = options.prompt_tokens + options.new_tokens;
  const std::int64_t context = weights->config().context_max;
  if (options.sequences < 1 || options.prompt_tokens < 1 || options.new_tokens < 0 ||
      options.prompt_tokens > context || options.new_tokens > context - options.prompt_tokens) {
    return {ErrorCode::bad_argument,
            fmt::format("{} sequences of {} prompt and {} new tokens, expected at least 1, 1 and 0 "
                        "and together at most the context of {}",
                        options.sequences, options.prompt_tokens, options.new_tokens, context)};
  }
  EngineOptions engine_options = options.engine;
  engine_options.context_max = 0;
  engine_options.sequences_max = options.sequences;
  engine_options.step_tokens_max = std::max(engine_options.step_tokens_max, options.sequences);
  const KvFormat format =
      engine_options.activation_quant == "off" ? KvFormat::f32 : KvFormat::packed;
  Result<KvLayout> layout = make_kv_layout(weights->config(), format, engine_options.block_tokens);
  if (!layout.ok()) return layout.error();
  const std::int64_t blocks_each = blocks_for(positions, layout->block_tokens);
  engine_options.kv_memory_bytes =
      options.sequences * (layout->slot_bytes + blocks_each * layout->block_bytes);
  Result<std::unique_ptr<Engine>> engine = open_cpu_engine(std::move(weights), engine_options);
  if (!engine.ok()) return engine.error();

  BenchResult result;
  Bench bench(**engine, options, blocks_each);
  if (Status status = bench.prefill(result); !status.ok()) return status.error();
  if (Status status = bench.decode(result); !status.ok()) return status.error();
  return result;
}

} // namespace troupe::engine
