#include "engine/cpu_engine.hpp"

#include "engine/manifest.hpp"
#include "engine/model/forward.hpp"
#include "engine/model/weights.hpp"
#include "engine/sample/sampler.hpp"
#include "kernels/op_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace troupe::engine {

namespace {

constexpr std::int64_t kStepTokensLimit = 1 << 20;
constexpr std::int64_t kSequencesLimit = 1 << 20;
constexpr int kThreadsLimit = 1024;

Result<const kernels::OpTable*> ops_of(const std::string& path) {
  kernels::CpuPath wanted = kernels::best_cpu_path();
  if (path == "scalar") {
    wanted = kernels::CpuPath::scalar;
  } else if (path == "avx2") {
    wanted = kernels::CpuPath::avx2;
  } else if (path != "auto") {
    return {ErrorCode::bad_argument,
            fmt::format("model.cpu_path: found \"{}\", expected auto, scalar or avx2", path)};
  }
  const kernels::OpTable* ops = kernels::cpu_ops(wanted);
  if (ops == nullptr) {
    return {
        ErrorCode::unsupported,
        fmt::format("model.cpu_path: found \"{}\", which needs AVX2 and FMA, and this CPU lacks "
                    "them; use auto or scalar",
                    path)};
  }
  return ops;
}

Status in_range(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return {};
  return {ErrorCode::bad_argument,
          fmt::format("{} is {}, expected {} to {}", name, value, low, high)};
}

Result<KvFormat> format_of(const std::string& activation_quant) {
  if (activation_quant == "checkpoint") return KvFormat::packed;
  if (activation_quant == "off") return KvFormat::f32;
  return {ErrorCode::bad_argument,
          fmt::format("activation_quant is \"{}\", expected \"checkpoint\" or \"off\"",
                      activation_quant)};
}

Status check_options(const EngineOptions& options) {
  if (Status s = in_range("sequences_max", options.sequences_max, 1, kSequencesLimit); !s.ok()) {
    return s;
  }
  if (Status s = in_range("step_tokens_max", options.step_tokens_max, 1, kStepTokensLimit);
      !s.ok()) {
    return s;
  }
  return in_range("threads", options.threads, 1, kThreadsLimit);
}

/// Blocks that fit beside the slots.
Result<std::int64_t> blocks_in(const KvLayout& layout, const EngineOptions& options) {
  const std::int64_t slot_bytes = options.sequences_max * layout.slot_bytes;
  const std::int64_t blocks = (options.kv_memory_bytes - slot_bytes) / layout.block_bytes;
  if (blocks >= 1) return blocks;
  return {ErrorCode::no_room,
          fmt::format("kv.memory: found {} bytes, expected at least {} for {} state slots of {} "
                      "bytes and one kv block of {}; raise kv.memory or lower limits.sequences_max",
                      options.kv_memory_bytes, slot_bytes + layout.block_bytes,
                      options.sequences_max, layout.slot_bytes, layout.block_bytes)};
}

} // namespace

CpuEngine::CpuEngine(std::shared_ptr<const Weights> weights, KvLayout layout, Arena arena,
                     bool quantise, const kernels::OpTable& ops, const EngineOptions& options,
                     std::int64_t context_max)
    : weights_(std::move(weights)), layout_(std::move(layout)), arena_(std::move(arena)),
      pool_(options.threads), state_(*weights_, layout_, quantise, ops, pool_),
      slot_length_(static_cast<std::size_t>(arena_.slots()), 0) {
  const ModelConfig& c = weights_->config();
  model_.identity = weights_->identity();
  model_.vocab = c.vocab;
  model_.context_max = context_max;
  model_.eos_ids = c.eos_tokens;
  model_.layers = c.layers;
  model_.experts = c.experts;
  model_.cpu_path = std::string(ops.path);
  kv_.block_tokens = layout_.block_tokens;
  kv_.blocks = arena_.blocks();
  kv_.block_bytes = layout_.block_bytes;
  kv_.slots = arena_.slots();
  kv_.slot_bytes = layout_.slot_bytes;
  kv_.kv_format = std::string(kv_format_name(layout_.format));
  kv_.layout_id = layout_.layout_id;
  limits_ = {c.vocab,         context_max,    layout_.block_tokens,
             arena_.blocks(), arena_.slots(), options.step_tokens_max};
}

Result<std::unique_ptr<CpuEngine>> CpuEngine::open(std::shared_ptr<const Weights> weights,
                                                   const EngineOptions& options) {
  if (Status status = check_options(options); !status.ok()) return status.error();
  Result<const kernels::OpTable*> ops = ops_of(options.cpu_path);
  if (!ops.ok()) return ops.error();
  Result<KvFormat> format = format_of(options.activation_quant);
  if (!format.ok()) return format.error();
  const std::int64_t trained = weights->config().context_max;
  if (Status s = in_range("context_max", options.context_max, 0, trained); !s.ok()) {
    return s.error();
  }
  Result<KvLayout> layout = make_kv_layout(weights->config(), *format, options.block_tokens);
  if (!layout.ok()) return layout.error();
  Result<std::int64_t> blocks = blocks_in(*layout, options);
  if (!blocks.ok()) return blocks.error();
  Result<Arena> arena = Arena::create(*layout, options.sequences_max, *blocks);
  if (!arena.ok()) return arena.error();
  return std::unique_ptr<CpuEngine>(new CpuEngine(
      std::move(weights), std::move(*layout), std::move(*arena), *format == KvFormat::packed, **ops,
      options, options.context_max == 0 ? trained : options.context_max));
}

std::vector<SequenceStep> CpuEngine::sequences_of(const StepPlan& plan) const {
  std::vector<SequenceStep> out(plan.sequences());
  for (std::size_t i = 0; i < out.size(); ++i) {
    SequenceStep& s = out[i];
    s.slot = arena_.slot(plan.state_slot[i]).data();
    s.first_position = plan.first_position[i];
    s.begin = plan.tokens_of[i].begin;
    s.count = plan.tokens_of[i].count;
    s.wants_logits = plan.logits[i] == Logits::last;
    for (std::int32_t b = 0; b < plan.blocks_of[i].count; ++b) {
      const auto at = static_cast<std::size_t>(plan.blocks_of[i].begin + b);
      s.blocks.push_back(arena_.block(plan.block_table[at]).data());
    }
  }
  return out;
}

/// Samples, then commits the sequences that have nothing to complain about.
void CpuEngine::finish(const StepPlan& plan, StepResult& result) {
  const std::size_t n = plan.sequences();
  result.status.assign(n, ErrorCode::ok);
  result.length.assign(n, 0);
  result.sampled.assign(n, -1);
  result.logprob_bits.assign(n, 0);
  result.top_of.assign(n, Span{});
  std::vector<std::vector<TokenLogprob>> top(n);
  std::vector<std::int64_t> row_of(n, -1);
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (plan.logits[i] == Logits::last) row_of[i] = rows++;
  }
  state_.for_ranges(
      static_cast<std::int64_t>(n), 4 * model_.vocab,
      [&](std::int64_t begin, std::int64_t end, int) {
        for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
          if (row_of[i] < 0) continue;
          const auto at = static_cast<std::size_t>(plan.sampling_of[i]);
          const SamplingPlan& sampling = plan.sampling[at];
          const std::span<const std::int32_t> suppressed =
              std::span(plan.suppressed_ids)
                  .subspan(static_cast<std::size_t>(sampling.suppressed.begin),
                           static_cast<std::size_t>(sampling.suppressed.count));
          const std::span<const float> logits(state_.logits.row(row_of[i]),
                                              static_cast<std::size_t>(model_.vocab));
          Result<TokenLogprob> drawn = sample_token(logits, sampling, suppressed, top[i]);
          if (drawn.ok()) {
            result.sampled[i] = drawn->token;
            result.logprob_bits[i] = drawn->logprob_bits;
          } else {
            result.status[i] = drawn.error().code;
            top[i].clear();
          }
        }
      });
  for (std::size_t i = 0; i < n; ++i) {
    const auto slot = static_cast<std::size_t>(raw(plan.state_slot[i]));
    if (result.status[i] == ErrorCode::ok) {
      commit(state_, i);
      slot_length_[slot] = state_.sequences[i].end_position();
    }
    result.length[i] = slot_length_[slot];
    result.top_of[i] = {static_cast<std::int32_t>(result.top.size()),
                        static_cast<std::int32_t>(top[i].size())};
    result.top.insert(result.top.end(), top[i].begin(), top[i].end());
  }
}

Result<StepResult> CpuEngine::step(const StepPlan& plan) {
  if (Status status = check_plan(plan, limits_, slot_length_); !status.ok()) {
    return status.error();
  }
  const auto started = std::chrono::steady_clock::now();
  StepResult result;
  result.step = plan.step;
  result.expert_epoch = plan.expert_epoch;
  if (plan.sequences() > 0) {
    state_.begin(sequences_of(plan), plan.tokens);
    forward(state_);
    finish(plan, result);
  }
  if (plan.expert_counts) {
    result.expert_counts = state_.expert_counts;
    if (plan.sequences() == 0) {
      result.expert_counts.assign(static_cast<std::size_t>(model_.layers * model_.experts), 0);
    }
  }
  const auto passed = std::chrono::steady_clock::now() - started;
  result.compute_us = std::chrono::duration_cast<std::chrono::microseconds>(passed).count();
  return result;
}

Result<KvExport> CpuEngine::export_kv(StateSlotId slot, std::span<const KvBlockId> blocks) {
  if (Status s = check_kv_ids(kv_, slot, blocks, 0); !s.ok()) return s.error();
  const std::int64_t positions = slot_length_[static_cast<std::size_t>(raw(slot))];
  if (Status s = check_kv_ids(kv_, slot, blocks, positions); !s.ok()) return s.error();
  KvExport out;
  out.regions.emplace_back(arena_.slot(slot));
  const std::int64_t used = blocks_for(positions, kv_.block_tokens);
  for (std::int64_t i = 0; i < used; ++i) {
    out.regions.emplace_back(arena_.block(blocks[static_cast<std::size_t>(i)]));
  }
  out.manifest = make_manifest(model_, kv_, positions, out.regions);
  return out;
}

Result<std::vector<std::span<std::byte>>>
CpuEngine::import_regions(StateSlotId slot, std::span<const KvBlockId> blocks) {
  if (Status s = check_kv_ids(kv_, slot, blocks, 0); !s.ok()) return s.error();
  slot_length_[static_cast<std::size_t>(raw(slot))] = 0; // its bytes are about to change
  std::vector<std::span<std::byte>> out;
  out.push_back(arena_.slot(slot));
  for (const KvBlockId block : blocks)
    out.push_back(arena_.block(block));
  return out;
}

Status CpuEngine::import_kv(const KvManifest& manifest, StateSlotId slot,
                            std::span<const KvBlockId> blocks) {
  if (Status s = check_manifest(manifest, model_, kv_); !s.ok()) return s;
  if (Status s = check_kv_ids(kv_, slot, blocks, manifest.positions); !s.ok()) return s;
  std::vector<std::span<const std::byte>> regions;
  regions.emplace_back(arena_.slot(slot));
  for (const KvBlockId block : blocks)
    regions.emplace_back(arena_.block(block));
  if (Status s = check_regions(manifest, regions); !s.ok()) return s;
  const std::int64_t length = slot_length(arena_.slot(slot).data());
  if (length != manifest.positions || length > limits_.context_max) {
    return {ErrorCode::mismatch,
            fmt::format("the imported state slot holds {} tokens, its manifest says {}, this "
                        "engine takes up to {}",
                        length, manifest.positions, limits_.context_max)};
  }
  slot_length_[static_cast<std::size_t>(raw(slot))] = length;
  return {};
}

Result<std::unique_ptr<Engine>> open_cpu_engine(std::shared_ptr<const Weights> weights,
                                                const EngineOptions& options) {
  Result<std::unique_ptr<CpuEngine>> engine = CpuEngine::open(std::move(weights), options);
  if (!engine.ok()) return engine.error();
  return std::unique_ptr<Engine>(std::move(*engine));
}

} // namespace troupe::engine
