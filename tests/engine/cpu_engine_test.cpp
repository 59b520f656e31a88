// The CPU engine through its door, on the bundled model: results depend on a sequence alone, state
// moves between engines, and what cannot be done changes nothing.

#include "engine/engine.hpp"
#include "schedulers/core/rng.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

namespace {

using namespace troupe;
using namespace troupe::engine;

constexpr std::int64_t kBlockTokens = 16;
constexpr std::int64_t kStepTokens = 64;

std::string model_path() { return std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1"; }

EngineOptions options_of(const std::string& quant = "checkpoint", int threads = 1,
                         const std::string& path = "auto") {
  EngineOptions options;
  options.model_path = model_path();
  options.activation_quant = quant;
  options.cpu_path = path;
  options.block_tokens = kBlockTokens;
  options.kv_memory_bytes = 64LL << 20;
  options.sequences_max = 8;
  options.step_tokens_max = kStepTokens;
  options.threads = threads;
  return options;
}

std::shared_ptr<const Weights> weights() {
  static const auto kWeights = [] {
    auto loaded = load_weights(options_of());
    if (!loaded.ok()) std::printf("%s\n", loaded.error().message.c_str());
    return loaded.ok() ? *loaded : nullptr;
  }();
  return kWeights;
}

std::unique_ptr<Engine> open(const EngineOptions& options) {
  auto engine = open_cpu_engine(weights(), options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(*engine);
}

/// A request and where it stands on some engine.
struct Sequence {
  std::vector<std::int32_t> prompt;
  std::int64_t new_tokens = 0;
  SamplingPlan sampling;
  StateSlotId slot{};
  std::vector<KvBlockId> blocks;
  std::int64_t length = 0;
  std::vector<std::int32_t> tokens; ///< Answered.
  std::vector<std::uint32_t> bits;  ///< Of every number that came with them.

  bool done() const { return static_cast<std::int64_t>(tokens.size()) == new_tokens; }
  std::int64_t known() const { return static_cast<std::int64_t>(prompt.size() + tokens.size()); }
  std::int32_t token(std::int64_t position) const {
    const auto at = static_cast<std::size_t>(position);
    return at < prompt.size() ? prompt[at] : tokens[at - prompt.size()];
  }
};

/// Adds the next `count` tokens of a sequence to a plan.
void add(StepPlan& plan, const Sequence& s, std::int64_t count) {
  plan.state_slot.push_back(s.slot);
  plan.first_position.push_back(s.length);
  plan.tokens_of.push_back(
      {static_cast<std::int32_t>(plan.tokens.size()), static_cast<std::int32_t>(count)});
  for (std::int64_t i = 0; i < count; ++i)
    plan.tokens.push_back(s.token(s.length + i));
  plan.blocks_of.push_back({static_cast<std::int32_t>(plan.block_table.size()),
                            static_cast<std::int32_t>(s.blocks.size())});
  plan.block_table.insert(plan.block_table.end(), s.blocks.begin(), s.blocks.end());
  const bool sample = s.length + count == s.known();
  plan.logits.push_back(sample ? Logits::last : Logits::none);
  plan.sampling_of.push_back(sample ? static_cast<std::int32_t>(plan.sampling.size()) : -1);
  if (sample) {
    plan.sampling.push_back(s.sampling);
    plan.sampling.back().output_position = static_cast<std::int64_t>(s.tokens.size());
  }
}

/// Takes what a step gave to its i-th sequence.
void take(const StepResult& result, std::size_t i, Sequence& s) {
  ASSERT_EQ(result.status[i], ErrorCode::ok);
  s.length = result.length[i];
  if (result.sampled[i] < 0) return;
  s.tokens.push_back(result.sampled[i]);
  s.bits.push_back(result.logprob_bits[i]);
  for (std::int32_t t = 0; t < result.top_of[i].count; ++t) {
    const TokenLogprob& top = result.top[static_cast<std::size_t>(result.top_of[i].begin + t)];
    s.bits.push_back(static_cast<std::uint32_t>(top.token));
    s.bits.push_back(top.logprob_bits);
  }
}

/// Requests of mixed lengths, greedy and seeded.
std::vector<Sequence> requests(std::uint64_t seed, std::size_t count) {
  Rng rng(seed);
  std::vector<Sequence> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto length = 1 + rng.below(i == 0 ? 160 : 60);
    for (std::uint64_t t = 0; t < length; ++t) {
      out[i].prompt.push_back(static_cast<std::int32_t>(3 + rng.below(4000)));
    }
    out[i].new_tokens = 4 + static_cast<std::int64_t>(rng.below(8));
    out[i].sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
    out[i].sampling.top_p = i % 3 == 0 ? 1.0F : 0.8F;
    out[i].sampling.seed = seed + i;
    out[i].sampling.top_logprobs = 3;
  }
  return out;
}

/// Gives each sequence a slot and blocks, in an order drawn from `rng`.
void place(std::vector<Sequence>& sequences, const KvFacts& kv, Rng& rng) {
  std::vector<std::int32_t> slots(static_cast<std::size_t>(kv.slots));
  std::vector<std::int32_t> blocks(200);
  std::iota(slots.begin(), slots.end(), 0);
  std::iota(blocks.begin(), blocks.end(), 0);
  for (auto* ids : {&slots, &blocks}) {
    for (std::size_t i = ids->size(); i > 1; --i)
      std::swap((*ids)[i - 1], (*ids)[rng.below(i)]);
  }
  for (Sequence& s : sequences) {
    s.slot = StateSlotId{slots.back()};
    slots.pop_back();
    const auto positions = static_cast<std::int64_t>(s.prompt.size()) + s.new_tokens;
    for (std::int64_t p = 0; p < positions; p += kBlockTokens) {
      s.blocks.push_back(KvBlockId{blocks.back()});
      blocks.pop_back();
    }
  }
}

/// Each sequence by itself, its prompt in as few steps as fit.
void run_alone(Engine& engine, std::vector<Sequence>& sequences) {
  for (Sequence& s : sequences) {
    while (!s.done()) {
      StepPlan plan;
      add(plan, s, std::min(kStepTokens, s.known() - s.length));
      auto result = engine.step(plan);
      ASSERT_TRUE(result.ok()) << result.error().message;
      take(*result, 0, s);
    }
  }
}

/// Random subsets of the sequences in random order with random chunks.
void run_mixed(Engine& engine, std::vector<Sequence>& sequences, Rng& rng) {
  while (std::any_of(sequences.begin(), sequences.end(),
                     [](const Sequence& s) { return !s.done(); })) {
    std::vector<Sequence*> order;
    for (Sequence& s : sequences) {
      if (!s.done() && rng.below(3) > 0) order.push_back(&s);
    }
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[rng.below(i)]);
    StepPlan plan;
    std::int64_t room = kStepTokens;
    for (Sequence* s : order) {
      const std::int64_t most = std::min(room, s->known() - s->length);
      const auto count =
          most > 0 ? 1 + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(most))) : 0;
      if (count == 0) break;
      add(plan, *s, count);
      room -= count;
    }
    auto result = engine.step(plan);
    ASSERT_TRUE(result.ok()) << result.error().message;
    for (std::size_t i = 0; i < plan.sequences(); ++i)
      take(*result, i, *order[i]);
  }
}

void expect_equal(const std::vector<Sequence>& got, const std::vector<Sequence>& want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].tokens, want[i].tokens) << "sequence " << i;
    EXPECT_EQ(got[i].bits, want[i].bits) << "sequence " << i;
  }
}

void check_invariance(const std::string& quant, const std::string& path, std::uint64_t seed) {
  std::printf("seed %lu\n", seed);
  Rng rng(seed);
  std::vector<Sequence> alone = requests(seed, 6);
  const auto reference = open(options_of(quant, 1, path));
  place(alone, reference->kv(), rng);
  run_alone(*reference, alone);
  for (const int threads : {1, 2}) {
    std::vector<Sequence> mixed = requests(seed, 6);
    const auto engine = open(options_of(quant, threads, path));
    place(mixed, engine->kv(), rng);
    run_mixed(*engine, mixed, rng);
    expect_equal(mixed, alone);
  }
}

TEST(CpuEngine, ResultsDependOnTheSequenceAloneCheckpoint) {
  for (const std::uint64_t seed : {1, 2, 3})
    check_invariance("checkpoint", "auto", seed);
}

TEST(CpuEngine, ResultsDependOnTheSequenceAloneOff) {
  for (const std::uint64_t seed : {4, 5})
    check_invariance("off", "auto", seed);
}

TEST(CpuEngine, ResultsDependOnTheSequenceAloneScalar) {
  check_invariance("checkpoint", "scalar", 6);
}

TEST(CpuEngine, SequencesMoveBetweenEngines) {
  for (const char* quant : {"checkpoint", "off"}) {
    Rng rng(11);
    const auto first = open(options_of(quant));
    const auto second = open(options_of(quant, 2));
    std::vector<Sequence> stay = requests(12, 3);
    place(stay, first->kv(), rng);
    run_alone(*first, stay);

    std::vector<Sequence> move = requests(12, 3);
    place(move, first->kv(), rng);
    std::vector<Sequence> target = requests(12, 3);
    place(target, second->kv(), rng);
    for (std::size_t i = 0; i < move.size(); ++i) {
      Sequence& s = move[i];
      // At odd and even lengths: a ratio-2 pair may be half full.
      const std::int64_t until =
          std::min(s.known(), std::int64_t{21} + static_cast<std::int64_t>(i));
      StepPlan plan;
      add(plan, s, until);
      auto result = first->step(plan);
      ASSERT_TRUE(result.ok()) << result.error().message;
      take(*result, 0, s);

      auto exported = first->export_kv(s.slot, s.blocks);
      ASSERT_TRUE(exported.ok()) << exported.error().message;
      EXPECT_EQ(exported->manifest.positions, until);
      const std::vector<KvBlockId>& blocks = target[i].blocks;
      auto regions = second->import_regions(target[i].slot, blocks);
      ASSERT_TRUE(regions.ok()) << regions.error().message;
      for (std::size_t r = 0; r < exported->regions.size(); ++r) {
        ASSERT_EQ((*regions)[r].size(), exported->regions[r].size());
        std::memcpy((*regions)[r].data(), exported->regions[r].data(), (*regions)[r].size());
      }
      (*regions)[0][100] ^= std::byte{1};
      EXPECT_EQ(second->import_kv(exported->manifest, target[i].slot, blocks).error().code,
                ErrorCode::bad_digest);
      (*regions)[0][100] ^= std::byte{1};
      const Status imported = second->import_kv(exported->manifest, target[i].slot, blocks);
      ASSERT_TRUE(imported.ok()) << imported.error().message;
      s.slot = target[i].slot;
      s.blocks = blocks;
    }
    run_mixed(*second, move, rng);
    expect_equal(move, stay);
  }
}

TEST(CpuEngine, RefusesWhatDoesNotFit) {
  auto packed = open(options_of("checkpoint"));
  auto plain = open(options_of("off"));
  std::vector<Sequence> sequences = requests(21, 1);
  Rng rng(21);
  place(sequences, packed->kv(), rng);
  StepPlan plan;
  add(plan, sequences[0], 10);
  ASSERT_TRUE(packed->step(plan).ok());
  auto exported = packed->export_kv(sequences[0].slot, sequences[0].blocks);
  ASSERT_TRUE(exported.ok());
  ASSERT_TRUE(plain->import_regions(sequences[0].slot, sequences[0].blocks).ok());
  const Status status =
      plain->import_kv(exported->manifest, sequences[0].slot, sequences[0].blocks);
  EXPECT_EQ(status.error().code, ErrorCode::mismatch);
}

TEST(CpuEngine, ABadPlanChangesNothing) {
  auto engine = open(options_of());
  std::vector<Sequence> sequences = requests(31, 2);
  Rng rng(31);
  place(sequences, engine->kv(), rng);
  Sequence& s = sequences[0];
  StepPlan good;
  add(good, s, 5);
  ASSERT_TRUE(engine->step(good).ok());

  StepPlan gap = good;
  gap.first_position[0] = 6;
  StepPlan twice = good;
  twice.first_position[0] = 5;
  add(twice, s, 3);
  StepPlan foreign = good;
  foreign.first_position[0] = 5;
  foreign.tokens[2] = 4096;
  StepPlan unmapped = good;
  unmapped.first_position[0] = 5;
  unmapped.block_table[0] = KvBlockId{1 << 30};
  for (const StepPlan& plan : {gap, twice, foreign, unmapped}) {
    auto result = engine->step(plan);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::bad_plan) << result.error().message;
  }
  // The slot still holds five tokens and goes on as if nothing had been.
  s.length = 5;
  std::vector<Sequence> same = requests(31, 2);
  place(same, engine->kv(), rng);
  same[0].slot = s.slot == StateSlotId{0} ? StateSlotId{1} : StateSlotId{0};
  std::vector<Sequence> one = {s};
  std::vector<Sequence> other = {same[0]};
  run_alone(*engine, one);
  auto fresh = open(options_of());
  run_alone(*fresh, other);
  expect_equal(one, other);
}

TEST(CpuEngine, ASequenceThatCannotBeSampledStaysAsItWas) {
  auto engine = open(options_of());
  std::vector<Sequence> sequences = requests(41, 2);
  Rng rng(41);
  place(sequences, engine->kv(), rng);
  StepPlan plan;
  for (Sequence& s : sequences)
    add(plan, s, std::min<std::int64_t>(s.known(), 30));
  for (std::int32_t i = 0; i < 2; ++i)
    plan.logits[static_cast<std::size_t>(i)] = Logits::last;
  plan.sampling = {SamplingPlan{.temperature = 0.0F}, SamplingPlan{.temperature = 0.0F}};
  plan.sampling_of = {0, 1};
  StepPlan hopeless = plan;
  hopeless.suppressed_ids.resize(4096);
  std::iota(hopeless.suppressed_ids.begin(), hopeless.suppressed_ids.end(), 0);
  hopeless.sampling[0].suppressed = {0, 4096};
  auto failed = engine->step(hopeless);
  ASSERT_TRUE(failed.ok()) << failed.error().message;
  EXPECT_EQ(failed->status[0], ErrorCode::invalid_request);
  EXPECT_EQ(failed->length[0], 0);
  EXPECT_EQ(failed->sampled[0], -1);
  EXPECT_EQ(failed->status[1], ErrorCode::ok);
  EXPECT_EQ(failed->length[1], plan.tokens_of[1].count);

  auto fresh = open(options_of());
  auto whole = fresh->step(plan);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(failed->sampled[1], whole->sampled[1]);
  auto again =
      engine->step(plan); // position 0 is right for the untouched slot, and resets the other
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->sampled, whole->sampled);
}

TEST(CpuEngine, CountsExperts) {
  auto engine = open(options_of());
  std::vector<Sequence> sequences = requests(51, 3);
  Rng rng(51);
  place(sequences, engine->kv(), rng);
  StepPlan plan;
  plan.expert_counts = true;
  for (const Sequence& s : sequences)
    add(plan, s, std::min<std::int64_t>(s.known(), 9));
  auto result = engine->step(plan);
  ASSERT_TRUE(result.ok());
  const auto experts = static_cast<std::size_t>(engine->model().experts);
  ASSERT_EQ(result->expert_counts.size(),
            static_cast<std::size_t>(engine->model().layers) * experts);
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(engine->model().layers); ++layer) {
    const auto begin = result->expert_counts.begin() + static_cast<std::ptrdiff_t>(layer * experts);
    EXPECT_EQ(std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(experts), 0),
              2 * static_cast<std::int32_t>(plan.tokens.size()));
  }
  auto idle = engine->step(StepPlan{});
  EXPECT_TRUE(idle.ok());
}

TEST(CpuEngine, RefusesOptionsByName) {
  const auto refused = [](auto change) {
    EngineOptions options = options_of();
    change(options);
    auto engine = open_cpu_engine(weights(), options);
    EXPECT_FALSE(engine.ok());
    return engine.ok() ? std::string() : engine.error().message;
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(refused([](auto& o) { o.threads = 0; }), "threads"));
  EXPECT_TRUE(has(refused([](auto& o) { o.cpu_path = "sse"; }), "sse"));
  EXPECT_TRUE(has(refused([](auto& o) { o.activation_quant = "on"; }), "activation_quant"));
  EXPECT_TRUE(has(refused([](auto& o) { o.block_tokens = 3; }), "kv.block_tokens: found 3"));
  EXPECT_TRUE(has(refused([](auto& o) { o.kv_memory_bytes = 1000; }), "raise kv.memory"));
  EXPECT_TRUE(has(refused([](auto& o) { o.context_max = 1 << 30; }), "context_max"));
  EXPECT_TRUE(has(refused([](auto& o) { o.sequences_max = 0; }), "sequences_max"));
}

} // namespace
