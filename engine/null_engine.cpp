// An engine without weights: made-up tokens, modelled time, real accounting and real handoffs.
//
// A slot holds the length and a running digest of its tokens, blocks hold the tokens themselves:
// few bytes, but enough that a lost, swapped or stale block of a handoff is an error, not luck.

#include "engine/engine.hpp"
#include "engine/manifest.hpp"
#include "engine/model/config.hpp"
#include "engine/plan_check.hpp"
#include "schedulers/core/rng.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

namespace troupe::engine {

namespace {

constexpr std::int64_t kTokenBytes = sizeof(std::int32_t);
constexpr std::uint64_t kLayoutVersion = 1;
constexpr std::uint64_t kDigestStart = 0x6E756C6C2D6B7631ULL;
/// Logarithms of made-up tokens lie in (-8, 0]; each runner-up is a quarter below.
constexpr float kLogprobStep = 0.25F;

/// The bytes of one state slot.
struct SlotState {
  std::int64_t length = 0;
  std::uint64_t digest = kDigestStart; ///< Over all tokens in order.
  std::int32_t last_token = -1;
  std::int32_t reserved = 0;
};
static_assert(sizeof(SlotState) == 24);

std::uint64_t extend(std::uint64_t digest, std::int32_t token) {
  return mix64(digest ^ static_cast<std::uint64_t>(static_cast<std::uint32_t>(token)));
}

/// Ids that are never made up: ends, pads and the ids of other uses.
std::vector<std::int32_t> special_ids(const ModelConfig& config) {
  std::vector<std::int32_t> ids(config.eos_tokens);
  ids.push_back(static_cast<std::int32_t>(config.bos_token));
  ids.push_back(static_cast<std::int32_t>(config.pad_token));
  if (config.image_token) ids.push_back(static_cast<std::int32_t>(*config.image_token));
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

class NullEngine final : public Engine {
public:
  NullEngine(ModelFacts model, KvFacts kv, const PlanLimits& limits, const NullTiming& timing,
             const ModelConfig& config)
      : model_(std::move(model)), kv_(std::move(kv)), limits_(limits), timing_(timing),
        special_(special_ids(config)), experts_per_token_(config.experts_per_token),
        slots_(static_cast<std::size_t>(kv_.slots)), lengths_(static_cast<std::size_t>(kv_.slots)),
        // Not zeroed: pages that no sequence uses are never touched.
        block_memory_(new std::int32_t[static_cast<std::size_t>(kv_.blocks * kv_.block_tokens)]) {}

  const ModelFacts& model() const noexcept override { return model_; }
  const KvFacts& kv() const noexcept override { return kv_; }

  Result<StepResult> step(const StepPlan& plan) override;
  Result<KvExport> export_kv(StateSlotId slot, std::span<const KvBlockId> blocks) override;
  Result<std::vector<std::span<std::byte>>>
  import_regions(StateSlotId slot, std::span<const KvBlockId> blocks) override;
  Status import_kv(const KvManifest& manifest, StateSlotId slot,
                   std::span<const KvBlockId> blocks) override;

private:
  std::span<std::int32_t> block(KvBlockId id) const {
    return {block_memory_.get() + raw(id) * kv_.block_tokens,
            static_cast<std::size_t>(kv_.block_tokens)};
  }
  std::int32_t& token_at(std::span<const KvBlockId> blocks, std::int64_t position) const {
    return block(blocks[static_cast<std::size_t>(
        position / kv_.block_tokens)])[static_cast<std::size_t>(position % kv_.block_tokens)];
  }
  std::span<std::byte> slot_bytes(StateSlotId slot) {
    return std::as_writable_bytes(std::span(&slots_[static_cast<std::size_t>(raw(slot))], 1));
  }

  bool allowed(std::int32_t token, std::span<const std::int32_t> suppressed) const {
    return !std::binary_search(special_.begin(), special_.end(), token) &&
           std::find(suppressed.begin(), suppressed.end(), token) == suppressed.end();
  }
  std::int32_t next_allowed(std::int64_t from, std::span<const std::int32_t> suppressed) const;
  ErrorCode run_sequence(const StepPlan& plan, std::size_t i, StepResult& result);
  ErrorCode sample(const SamplingPlan& sampling, std::span<const std::int32_t> suppressed,
                   std::size_t i, StepResult& result);
  void count_experts(const StepPlan& plan, StepResult& result) const;
  std::int64_t modelled_ps(const StepPlan& plan) const;
  std::uint64_t digest_of(std::span<const KvBlockId> blocks, std::int64_t length) const;

  ModelFacts model_;
  KvFacts kv_;
  PlanLimits limits_;
  NullTiming timing_;
  std::vector<std::int32_t> special_; ///< Ascending.
  std::int64_t experts_per_token_;
  std::vector<SlotState> slots_;
  std::vector<std::int64_t> lengths_; ///< Of slots_, as check_plan wants them.
  std::unique_ptr<std::int32_t[]> block_memory_;
};

/// First id from `from` on, around the vocabulary, that may be made up; -1 if there is none.
std::int32_t NullEngine::next_allowed(std::int64_t from,
                                      std::span<const std::int32_t> suppressed) const {
  for (std::int64_t i = 0; i < model_.vocab; ++i) {
    const auto token = static_cast<std::int32_t>((from + i) % model_.vocab);
    if (allowed(token, suppressed)) return token;
  }
  return -1;
}

ErrorCode NullEngine::sample(const SamplingPlan& sampling, std::span<const std::int32_t> suppressed,
                             std::size_t i, StepResult& result) {
  const std::uint64_t bits = draw(
      sampling.seed, static_cast<std::uint64_t>(sampling.output_position), Purpose::null_token);
  const auto vocab = static_cast<std::uint64_t>(model_.vocab);
  const std::int32_t token =
      next_allowed(static_cast<std::int64_t>(static_cast<Wide>(bits) * vocab >> 64), suppressed);
  if (token < 0) return ErrorCode::invalid_request;
  result.sampled[i] = token;
  if (sampling.top_logprobs < 0) return ErrorCode::ok;
  float logprob = -static_cast<float>(bits & 0xFFFF) / 8192.0F;
  result.logprob_bits[i] = std::bit_cast<std::uint32_t>(logprob);
  const std::int64_t count = std::min<std::int64_t>(sampling.top_logprobs, model_.vocab);
  result.top_of[i] = {static_cast<std::int32_t>(result.top.size()),
                      static_cast<std::int32_t>(count)};
  for (std::int64_t n = 0; n < count; ++n, logprob -= kLogprobStep) {
    result.top.push_back({static_cast<std::int32_t>((token + n) % model_.vocab),
                          std::bit_cast<std::uint32_t>(logprob)});
  }
  return ErrorCode::ok;
}

ErrorCode NullEngine::run_sequence(const StepPlan& plan, std::size_t i, StepResult& result) {
  const auto at = static_cast<std::size_t>(raw(plan.state_slot[i]));
  const Span blocks_of = plan.blocks_of[i];
  const Span tokens_of = plan.tokens_of[i];
  const auto blocks = std::span(plan.block_table)
                          .subspan(static_cast<std::size_t>(blocks_of.begin),
                                   static_cast<std::size_t>(blocks_of.count));
  const auto tokens = std::span(plan.tokens)
                          .subspan(static_cast<std::size_t>(tokens_of.begin),
                                   static_cast<std::size_t>(tokens_of.count));
  const std::int64_t first = plan.first_position[i];
  SlotState state = first == 0 ? SlotState{} : slots_[at];
  result.length[i] = first;
  // A cheap look at whether the table still is the one that the sequence was written through.
  if (first > 0 && token_at(blocks, first - 1) != state.last_token) return ErrorCode::bad_digest;
  if (plan.logits[i] == Logits::last) {
    const SamplingPlan& sampling = plan.sampling[static_cast<std::size_t>(plan.sampling_of[i])];
    const auto suppressed = std::span(plan.suppressed_ids)
                                .subspan(static_cast<std::size_t>(sampling.suppressed.begin),
                                         static_cast<std::size_t>(sampling.suppressed.count));
    const ErrorCode code = sample(sampling, suppressed, i, result);
    if (code != ErrorCode::ok) return code;
  }
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const std::int64_t position = first + static_cast<std::int64_t>(t);
    if (position % kv_.block_tokens == 0) {
      // A block's unused rest is zero, so its bytes depend on the tokens alone.
      std::ranges::fill(block(blocks[static_cast<std::size_t>(position / kv_.block_tokens)]), 0);
    }
    token_at(blocks, position) = tokens[t];
    state.digest = extend(state.digest, tokens[t]);
  }
  state.last_token = tokens.back();
  state.length = first + std::ssize(tokens);
  slots_[at] = state;
  lengths_[at] = state.length;
  result.length[i] = state.length;
  return ErrorCode::ok;
}

/// Made-up routing: every token visits experts_per_token neighbours, in every layer from another
/// expert on. The lower of two draws makes it skewed: the hottest expert gets nearly twice the
/// mean.
void NullEngine::count_experts(const StepPlan& plan, StepResult& result) const {
  result.expert_counts.assign(static_cast<std::size_t>(model_.layers * model_.experts), 0);
  const auto experts = static_cast<std::uint64_t>(model_.experts);
  for (const std::int32_t token : plan.tokens) {
    const std::uint64_t drawn = mix64(static_cast<std::uint64_t>(token));
    for (std::int64_t layer = 0; layer < model_.layers; ++layer) {
      // A whole mix for each layer would be most of the time of a step.
      std::uint64_t bits = (drawn + static_cast<std::uint64_t>(layer)) * 0x9E3779B97F4A7C15ULL;
      bits ^= bits >> 29;
      const std::uint64_t lower = std::min(bits & 0xFFFFFFFFU, bits >> 32);
      const std::uint64_t first = (lower * experts >> 32) + static_cast<std::uint64_t>(5 * layer);
      std::int32_t* counts = result.expert_counts.data() + layer * model_.experts;
      for (std::int64_t k = 0; k < experts_per_token_; ++k)
        ++counts[(first + static_cast<std::uint64_t>(k)) % experts];
    }
  }
}

/// Cost model: a sequence with one new token and a past is a decode, everything else a chunk.
std::int64_t NullEngine::modelled_ps(const StepPlan& plan) const {
  if (plan.sequences() == 0) return 0;
  Wide ps = static_cast<Wide>(timing_.step_ps);
  for (std::size_t i = 0; i < plan.sequences(); ++i) {
    const auto n = static_cast<Wide>(plan.tokens_of[i].count);
    const auto past = static_cast<Wide>(plan.first_position[i]);
    if (n == 1 && past > 0 && plan.logits[i] == Logits::last) {
      ps += static_cast<Wide>(timing_.sequence_ps) +
            static_cast<Wide>(timing_.context_token_ps) * past;
    } else {
      ps += static_cast<Wide>(timing_.token_ps) * n +
            static_cast<Wide>(timing_.pair_ps) * (n * past + n * (n + 1) / 2);
    }
  }
  return static_cast<std::int64_t>(std::min(ps, static_cast<Wide>(INT64_MAX)));
}

Result<StepResult> NullEngine::step(const StepPlan& plan) {
  if (Status status = check_plan(plan, limits_, lengths_); !status) return status.error();
  const std::size_t n = plan.sequences();
  StepResult result;
  result.step = plan.step;
  result.expert_epoch = plan.expert_epoch;
  result.status.assign(n, ErrorCode::ok);
  result.length.assign(n, 0);
  result.sampled.assign(n, -1);
  result.logprob_bits.assign(n, 0);
  result.top_of.assign(n, {});
  for (std::size_t i = 0; i < n; ++i)
    result.status[i] = run_sequence(plan, i, result);
  if (plan.expert_counts) count_experts(plan, result);
  if (timing_.speed > 0) {
    const double us = static_cast<double>(modelled_ps(plan)) / 1e6 * timing_.speed;
    // A day bounds what a wrong cost model can do.
    result.compute_us = static_cast<std::int64_t>(std::min(us, 86400.0 * 1e6));
    if (timing_.sleep) {
      std::this_thread::sleep_for(std::chrono::microseconds(result.compute_us));
    }
  }
  return result;
}

std::uint64_t NullEngine::digest_of(std::span<const KvBlockId> blocks, std::int64_t length) const {
  std::uint64_t digest = kDigestStart;
  for (std::int64_t p = 0; p < length; ++p)
    digest = extend(digest, token_at(blocks, p));
  return digest;
}

Result<KvExport> NullEngine::export_kv(StateSlotId slot, std::span<const KvBlockId> blocks) {
  if (Status status = check_kv_ids(kv_, slot, blocks, 0); !status) return status.error();
  const auto at = static_cast<std::size_t>(raw(slot));
  const SlotState& state = slots_[at];
  if (lengths_[at] == 0) {
    return Error{ErrorCode::bad_plan,
                 "state slot " + std::to_string(raw(slot)) + " holds no token to export"};
  }
  if (Status status = check_kv_ids(kv_, slot, blocks, state.length); !status) {
    return status.error();
  }
  if (digest_of(blocks, state.length) != state.digest) {
    return Error{ErrorCode::bad_digest, "state slot " + std::to_string(raw(slot)) +
                                            ": its kv blocks hold other tokens than it was given"};
  }
  KvExport out;
  out.regions.push_back(slot_bytes(slot));
  for (std::int64_t b = 0; b < blocks_for(state.length, kv_.block_tokens); ++b) {
    out.regions.push_back(std::as_bytes(block(blocks[static_cast<std::size_t>(b)])));
  }
  out.manifest = make_manifest(model_, kv_, state.length, out.regions);
  return out;
}

Result<std::vector<std::span<std::byte>>>
NullEngine::import_regions(StateSlotId slot, std::span<const KvBlockId> blocks) {
  if (Status status = check_kv_ids(kv_, slot, blocks, 0); !status) return status.error();
  // What arrives is nobody's sequence until import_kv has checked it.
  lengths_[static_cast<std::size_t>(raw(slot))] = 0;
  std::vector<std::span<std::byte>> regions{slot_bytes(slot)};
  for (const KvBlockId id : blocks)
    regions.push_back(std::as_writable_bytes(block(id)));
  return regions;
}

Status NullEngine::import_kv(const KvManifest& manifest, StateSlotId slot,
                             std::span<const KvBlockId> blocks) {
  if (Status status = check_manifest(manifest, model_, kv_); !status) return status;
  if (Status status = check_kv_ids(kv_, slot, blocks, manifest.positions); !status) return status;
  std::vector<std::span<const std::byte>> regions{slot_bytes(slot)};
  for (const KvBlockId id : blocks)
    regions.push_back(std::as_bytes(block(id)));
  Status status = check_regions(manifest, regions);
  const auto at = static_cast<std::size_t>(raw(slot));
  const SlotState& state = slots_[at];
  if (status.ok() &&
      (state.length != manifest.positions || digest_of(blocks, state.length) != state.digest ||
       token_at(blocks, state.length - 1) != state.last_token)) {
    status = {ErrorCode::bad_digest, "the kv blocks hold other tokens than the state slot says"};
  }
  if (!status) {
    slots_[at] = {};
    lengths_[at] = 0;
    return status;
  }
  lengths_[at] = state.length;
  return {};
}

Status check_options(const EngineOptions& options, const NullTiming& timing,
                     const ModelConfig& config) {
  const auto refuse = [](std::string what) {
    return Status{ErrorCode::bad_argument, std::move(what)};
  };
  if (options.block_tokens < 1 || options.block_tokens > (1 << 20) ||
      options.block_tokens % config.block_multiple() != 0) {
    const std::string multiple = std::to_string(config.block_multiple());
    return refuse("kv.block_tokens: found " + std::to_string(options.block_tokens) +
                  ", expected a positive multiple of " + multiple +
                  " (of every compression ratio and the candidate block of this model); use one");
  }
  if (options.context_max < 0 || options.context_max > config.context_max) {
    return refuse("model.context_max: found " + std::to_string(options.context_max) +
                  ", expected 0 or at most the checkpoint's " + std::to_string(config.context_max));
  }
  if (options.sequences_max < 1 || options.sequences_max > (1 << 20)) {
    return refuse("limits.sequences_max: found " + std::to_string(options.sequences_max) +
                  ", expected 1 to 1048576");
  }
  if (options.step_tokens_max < 1) {
    return refuse("limits.step_tokens_max: found " + std::to_string(options.step_tokens_max) +
                  ", expected at least 1");
  }
  if (timing.step_ps < 0 || timing.token_ps < 0 || timing.pair_ps < 0 || timing.sequence_ps < 0 ||
      timing.context_token_ps < 0) {
    return refuse("cost_model: has a negative time, expected 0 or more picoseconds");
  }
  if (!(timing.speed >= 0) || !std::isfinite(timing.speed)) {
    return refuse("cost_model.null_speed: is " + std::to_string(timing.speed) +
                  ", expected 0 or more");
  }
  return {};
}

/// Slots first, the rest blocks; no more than all slots together could ever fill.
Result<KvFacts> plan_memory(const EngineOptions& options, std::int64_t context_max) {
  KvFacts kv;
  kv.block_tokens = options.block_tokens;
  kv.block_bytes = options.block_tokens * kTokenBytes;
  kv.slots = options.sequences_max;
  kv.slot_bytes = sizeof(SlotState);
  kv.kv_format = "null";
  kv.layout_id = mix64(kLayoutVersion ^ static_cast<std::uint64_t>(options.block_tokens));
  const std::int64_t left = options.kv_memory_bytes - kv.slots * kv.slot_bytes;
  const std::int64_t useful = kv.slots * blocks_for(context_max, kv.block_tokens);
  kv.blocks = std::min({left / kv.block_bytes, useful, std::int64_t{INT32_MAX}});
  if (left < kv.block_bytes) {
    return Error{ErrorCode::bad_argument,
                 "kv.memory: found " + std::to_string(options.kv_memory_bytes) +
                     " bytes, expected at least " +
                     std::to_string(kv.slots * kv.slot_bytes + kv.block_bytes) + " for " +
                     std::to_string(kv.slots) +
                     " state slots and one block; raise kv.memory or lower limits.sequences_max"};
  }
  return kv;
}

} // namespace

Result<std::unique_ptr<Engine>> open_null_engine(const EngineOptions& options,
                                                 const NullTiming& timing) {
  auto config = read_model_config(options.model_path);
  if (!config) return config.error();
  if (Status status = check_options(options, timing, *config); !status) return status.error();
  auto facts = describe_model(options, false);
  if (!facts) return facts.error();
  ModelFacts model = std::move(*facts);
  model.cpu_path = "null";
  auto kv = plan_memory(options, model.context_max);
  if (!kv) return kv.error();
  const PlanLimits limits{model.vocab, model.context_max, kv->block_tokens,
                          kv->blocks,  kv->slots,         options.step_tokens_max};
  return std::unique_ptr<Engine>(
      std::make_unique<NullEngine>(std::move(model), *kv, limits, timing, *config));
}

} // namespace troupe::engine
