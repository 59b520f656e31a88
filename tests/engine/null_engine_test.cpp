// Null engine: tokens from (seed, position) alone, real accounting, and handoffs that notice
// damage.

#include "engine/engine.hpp"
#include "engine/manifest.hpp"
#include "tests/support/checkpoint_files.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <set>

namespace troupe::engine {
namespace {

const std::string kNano = TROUPE_SOURCE_DIR "/examples/models/nano-v4.1";

EngineOptions small_options() {
  EngineOptions options;
  options.model_path = kNano;
  options.block_tokens = 4;
  options.sequences_max = 4;
  options.context_max = 64;
  options.step_tokens_max = 32;
  return options;
}

std::unique_ptr<Engine> must_open(const EngineOptions& options, const NullTiming& timing = {}) {
  auto engine = open_null_engine(options, timing);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(*engine);
}

/// Adds a sequence of one slot to a plan; draws when `seed` is not 0.
void add(StepPlan& plan, int slot, std::int64_t first, const std::vector<std::int32_t>& tokens,
         const std::vector<int>& blocks, std::uint64_t seed = 0, std::int64_t position = 0) {
  plan.state_slot.push_back(StateSlotId{slot});
  plan.first_position.push_back(first);
  plan.tokens_of.push_back(
      {static_cast<std::int32_t>(plan.tokens.size()), static_cast<std::int32_t>(tokens.size())});
  plan.tokens.insert(plan.tokens.end(), tokens.begin(), tokens.end());
  plan.blocks_of.push_back({static_cast<std::int32_t>(plan.block_table.size()),
                            static_cast<std::int32_t>(blocks.size())});
  for (const int block : blocks)
    plan.block_table.push_back(KvBlockId{block});
  plan.logits.push_back(seed == 0 ? Logits::none : Logits::last);
  plan.sampling_of.push_back(seed == 0 ? -1 : static_cast<std::int32_t>(plan.sampling.size()));
  if (seed == 0) return;
  SamplingPlan sampling;
  sampling.seed = seed;
  sampling.output_position = position;
  sampling.top_logprobs = 2;
  plan.sampling.push_back(sampling);
}

StepResult must_step(Engine& engine, const StepPlan& plan) {
  auto result = engine.step(plan);
  EXPECT_TRUE(result.ok()) << result.error().message;
  return *result;
}

const std::vector<std::int32_t> kPrompt = {10, 11, 12, 13, 14, 15, 16, 17, 18};

/// The prompt in slot 0, blocks 0, 1, 2 (the last holds one token).
void run_prompt(Engine& engine) {
  StepPlan plan;
  add(plan, 0, 0, kPrompt, {0, 1, 2});
  const StepResult result = must_step(engine, plan);
  ASSERT_EQ(result.status[0], ErrorCode::ok);
  ASSERT_EQ(result.length[0], 9);
  ASSERT_EQ(result.sampled[0], -1);
}

TEST(NullEngine, KnowsTheModelFromItsConfigurationAlone) {
  test::ScratchFolder folder;
  test::write_file(folder / "config.json", test::read_file(kNano + "/config.json"));
  EngineOptions options = small_options();
  options.model_path = folder.path();
  options.context_max = 0;
  const auto engine = must_open(options);
  EXPECT_EQ(engine->model().vocab, 4096);
  EXPECT_EQ(engine->model().context_max, 16384);
  EXPECT_EQ(engine->model().cpu_path, "null");
  EXPECT_EQ(engine->model().identity.size(), 32U);
  EXPECT_EQ(engine->kv().slots, 4);
  EXPECT_EQ(engine->kv().blocks, 4 * 16384 / 4) << "no more than the slots can fill";
  options.kv_memory_bytes = 4 * engine->kv().slot_bytes + 3 * engine->kv().block_bytes + 1;
  EXPECT_EQ(must_open(options)->kv().blocks, 3);
}

TEST(NullEngine, RefusesOptionsByName) {
  const auto message = [](auto change) {
    EngineOptions options = small_options();
    NullTiming timing;
    change(options, timing);
    auto engine = open_null_engine(options, timing);
    return engine.ok() ? std::string("opened") : engine.error().message;
  };
  using O = EngineOptions;
  using T = NullTiming;
  const auto expect = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(message([](O& o, T&) { o.block_tokens = 3; }),
         "kv.block_tokens: found 3, expected a positive mult");
  expect(message([](O& o, T&) { o.block_tokens = 0; }), "kv.block_tokens: found 0");
  expect(message([](O& o, T&) { o.context_max = 16385; }), "model.context_max: found 16385");
  expect(message([](O& o, T&) { o.sequences_max = 0; }), "limits.sequences_max: found 0");
  expect(message([](O& o, T&) { o.step_tokens_max = 0; }), "limits.step_tokens_max: found 0");
  expect(message([](O& o, T&) { o.kv_memory_bytes = 10; }), "kv.memory: found 10 bytes");
  expect(message([](O& o, T&) { o.model_path = "/nowhere"; }), "/nowhere: is not there");
  expect(message([](O&, T& t) { t.pair_ps = -1; }), "cost_model: has a negative");
  expect(message([](O&, T& t) { t.speed = -1; }), "null_speed: is -1");
}

TEST(NullEngine, TokensDependOnSeedAndPositionOnly) {
  const auto one = must_open(small_options());
  const auto two = must_open(small_options());
  std::set<std::int32_t> seen;
  for (std::int64_t position = 0; position < 50; ++position) {
    StepPlan alone;
    add(alone, 1, 0, {5}, {7}, 99, position);
    StepPlan mixed;
    add(mixed, 0, 0, kPrompt, {0, 1, 2}, 5);
    add(mixed, 3, 0, {6, 7}, {4}, 99, position);
    const StepResult a = must_step(*one, alone);
    const StepResult b = must_step(*two, mixed);
    EXPECT_EQ(a.sampled[0], b.sampled[1]);
    EXPECT_EQ(a.logprob_bits[0], b.logprob_bits[1]);
    seen.insert(a.sampled[0]);
    EXPECT_FALSE(a.sampled[0] <= 2 || a.sampled[0] == 4094) << "a special id";
    ASSERT_EQ(b.top_of[1].count, 2);
    const auto& best = b.top[static_cast<std::size_t>(b.top_of[1].begin)];
    EXPECT_EQ(best.token, b.sampled[1]);
    EXPECT_EQ(best.logprob_bits, b.logprob_bits[1]);
    EXPECT_LE(std::bit_cast<float>(best.logprob_bits), 0);
  }
  EXPECT_GT(seen.size(), 40U);
}

TEST(NullEngine, SuppressedIdsAreNotMadeUp) {
  const auto engine = must_open(small_options());
  StepPlan plan;
  add(plan, 0, 0, {5}, {0}, 3, 4);
  const std::int32_t first = must_step(*engine, plan).sampled[0];
  plan.suppressed_ids = {first};
  plan.sampling[0].suppressed = {0, 1};
  EXPECT_NE(must_step(*engine, plan).sampled[0], first);
  plan.suppressed_ids.resize(4096);
  for (std::int32_t i = 0; i < 4096; ++i)
    plan.suppressed_ids[static_cast<std::size_t>(i)] = i;
  plan.sampling[0].suppressed = {0, 4096};
  EXPECT_EQ(must_step(*engine, plan).status[0], ErrorCode::invalid_request);
}

TEST(NullEngine, ABadPlanChangesNothing) {
  const auto engine = must_open(small_options());
  run_prompt(*engine);
  StepPlan plan;
  add(plan, 0, 0, {1}, {0});
  add(plan, 1, 3, {1}, {5});
  auto result = engine->step(plan);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::bad_plan);
  StepPlan next;
  add(next, 0, 9, {20}, {0, 1, 2}, 1);
  EXPECT_EQ(must_step(*engine, next).length[0], 10);
}

TEST(NullEngine, AWrongBlockTableIsNoticed) {
  const auto engine = must_open(small_options());
  run_prompt(*engine);
  StepPlan plan;
  add(plan, 0, 9, {20}, {0, 1, 6}, 1);
  add(plan, 1, 0, {20}, {5}, 1);
  const StepResult result = must_step(*engine, plan);
  EXPECT_EQ(result.status[0], ErrorCode::bad_digest);
  EXPECT_EQ(result.length[0], 9);
  EXPECT_EQ(result.status[1], ErrorCode::ok) << "others are untouched";
}

TEST(NullEngine, CountsExpertsWhenAsked) {
  const auto engine = must_open(small_options());
  StepPlan plan;
  add(plan, 0, 0, kPrompt, {0, 1, 2});
  EXPECT_TRUE(must_step(*engine, plan).expert_counts.empty());
  plan.expert_counts = true;
  const StepResult result = must_step(*engine, plan);
  ASSERT_EQ(result.expert_counts.size(), 12U * 16);
  for (std::size_t layer = 0; layer < 12; ++layer) {
    std::int64_t sum = 0;
    for (std::size_t e = 0; e < 16; ++e)
      sum += result.expert_counts[layer * 16 + e];
    EXPECT_EQ(sum, 9 * 2);
  }
}

TEST(NullEngine, SomeExpertsOfEachLayerAreBusierAndAlwaysTheSame) {
  std::vector<std::vector<std::int64_t>> sums;
  for (int run = 0; run < 2; ++run) {
    const auto engine = must_open(small_options());
    sums.emplace_back(12 * 16, 0);
    for (std::int32_t token = 100; token < 1300; ++token) {
      StepPlan plan;
      plan.expert_counts = true;
      plan.expert_epoch = ExpertEpoch{9};
      add(plan, 0, 0, {token}, {0});
      const StepResult result = must_step(*engine, plan);
      EXPECT_EQ(result.expert_epoch, ExpertEpoch{9});
      for (std::size_t i = 0; i < sums.back().size(); ++i)
        sums.back()[i] += result.expert_counts[i];
    }
  }
  EXPECT_EQ(sums[0], sums[1]);
  std::set<std::ptrdiff_t> hottest;
  for (int layer = 0; layer < 12; ++layer) {
    const auto begin = sums[0].begin() + layer * 16;
    const auto [low, high] = std::minmax_element(begin, begin + 16);
    EXPECT_GT(*high, 3 * 1200 * 2 / 16 / 2) << "layer " << layer << ": 1.5 times the mean";
    EXPECT_LT(*low, 1200 * 2 / 16 / 2) << "layer " << layer << ": half of it";
    hottest.insert(high - begin);
  }
  EXPECT_GE(hottest.size(), 6U) << "layers differ";
}

TEST(NullEngine, TimeFollowsTheCostModel) {
  NullTiming timing{1'000'000'000, 10'000'000, 1'000'000, 100'000'000, 20'000'000, 1.0, false};
  const auto virtual_clock = must_open(small_options(), timing);
  StepPlan prefill;
  add(prefill, 0, 0, kPrompt, {0, 1, 2}, 1);
  // 1000 us + 9 * 10 us + (9 * 0 + 45) * 1 us
  EXPECT_EQ(must_step(*virtual_clock, prefill).compute_us, 1135);
  StepPlan decode;
  add(decode, 0, 9, {20}, {0, 1, 2}, 1);
  // 1000 us + 100 us + 9 * 20 us
  EXPECT_EQ(must_step(*virtual_clock, decode).compute_us, 1280);
  EXPECT_EQ(must_step(*virtual_clock, StepPlan{}).compute_us, 0);
  timing.speed = 10;
  timing.sleep = true;
  const auto asleep = must_open(small_options(), timing);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(must_step(*asleep, prefill).compute_us, 11350);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::microseconds(11350));
}

// -- handoff --------------------------------------------------------------------------------------

struct Handoff {
  std::unique_ptr<Engine> source = must_open(small_options());
  std::unique_ptr<Engine> target = must_open(small_options());
  KvManifest manifest;
  std::vector<std::span<std::byte>> into;

  /// Exports slot 0 of the source and copies it into slot 2, blocks 5, 3, 9 of the target.
  void copy() {
    run_prompt(*source);
    const KvBlockId from[] = {KvBlockId{0}, KvBlockId{1}, KvBlockId{2}, KvBlockId{3}};
    auto exported = source->export_kv(StateSlotId{0}, from);
    ASSERT_TRUE(exported.ok()) << exported.error().message;
    ASSERT_EQ(exported->regions.size(), 4U) << "blocks beyond the length stay out";
    manifest = exported->manifest;
    auto regions = target->import_regions(StateSlotId{2}, kTo);
    ASSERT_TRUE(regions.ok());
    into = *regions;
    ASSERT_EQ(into.size(), 4U);
    for (std::size_t i = 0; i < into.size(); ++i) {
      ASSERT_EQ(into[i].size(), exported->regions[i].size());
      std::ranges::copy(exported->regions[i], into[i].begin());
    }
  }

  Status import() { return target->import_kv(manifest, StateSlotId{2}, kTo); }

  static constexpr KvBlockId kTo[] = {KvBlockId{5}, KvBlockId{3}, KvBlockId{9}};
};

TEST(NullEngine, ASequenceGoesOnAfterAHandoff) {
  Handoff handoff;
  handoff.copy();
  EXPECT_EQ(handoff.manifest.positions, 9);
  const Status status = handoff.import();
  ASSERT_TRUE(status.ok()) << status.error().message;
  StepPlan plan;
  add(plan, 2, 9, {20}, {5, 3, 9}, 1);
  const StepResult result = must_step(*handoff.target, plan);
  EXPECT_EQ(result.status[0], ErrorCode::ok);
  EXPECT_EQ(result.length[0], 10);
}

TEST(NullEngine, EveryFlippedByteOfAHandoffIsAnError) {
  Handoff handoff;
  handoff.copy();
  std::vector<std::vector<std::byte>> sent;
  for (const auto region : handoff.into)
    sent.emplace_back(region.begin(), region.end());
  for (std::size_t region = 0; region < sent.size(); ++region) {
    for (std::size_t at = 0; at < sent[region].size(); ++at) {
      for (std::size_t i = 0; i < sent.size(); ++i) {
        std::ranges::copy(sent[i], handoff.into[i].begin());
      }
      handoff.into[region][at] ^= std::byte{1};
      EXPECT_EQ(handoff.import().error().code, ErrorCode::bad_digest) << region << " " << at;
    }
  }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    std::ranges::copy(sent[i], handoff.into[i].begin());
  }
  EXPECT_TRUE(handoff.import().ok()) << "a good copy after refused ones";
}

TEST(NullEngine, SwappedBlocksWithMatchingDigestsAreAnError) {
  Handoff handoff;
  handoff.copy();
  std::swap_ranges(handoff.into[1].begin(), handoff.into[1].end(), handoff.into[2].begin());
  std::swap(handoff.manifest.regions[1], handoff.manifest.regions[2]);
  EXPECT_EQ(handoff.import().error().code, ErrorCode::bad_digest);
  StepPlan plan;
  add(plan, 2, 9, {20}, {5, 3, 9}, 1);
  EXPECT_FALSE(handoff.target->step(plan).ok()) << "a refused import leaves an empty slot";
}

TEST(NullEngine, ManifestsOfOthersAreRefused) {
  const auto expect = [](auto change, const char* part) {
    Handoff handoff;
    handoff.copy();
    change(handoff.manifest);
    const Status status = handoff.import();
    EXPECT_EQ(status.error().code, ErrorCode::mismatch);
    EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
  };
  expect([](KvManifest& m) { m.version = 2; }, "manifest version 2, this engine has 1");
  expect([](KvManifest& m) { m.model_identity = "other"; }, "model other");
  expect([](KvManifest& m) { m.kv_format = "packed"; }, "kv format packed");
  expect([](KvManifest& m) { m.layout_id ^= 1; }, "kv layout");
  expect([](KvManifest& m) { m.block_tokens = 8; }, "block_tokens 8");
  expect([](KvManifest& m) { m.cpu_path = "avx2"; }, "cpu path avx2");
  expect([](KvManifest& m) { m.positions = 0; }, "has 0 tokens");
  expect([](KvManifest& m) { m.positions = INT64_MAX; }, "tokens, expected 1 to");
  expect([](KvManifest& m) { m.positions = 13; }, "regions 4, this engine has 5");
  expect([](KvManifest& m) { m.regions.pop_back(); }, "regions 3, this engine has 4");
  expect([](KvManifest& m) { m.regions[2].bytes = 1; }, "block bytes 1");
}

TEST(NullEngine, ExportAndImportCheckTheirIds) {
  Handoff handoff;
  handoff.copy();
  Engine& engine = *handoff.source;
  const KvBlockId two[] = {KvBlockId{0}, KvBlockId{1}};
  EXPECT_EQ(engine.export_kv(StateSlotId{0}, two).error().code, ErrorCode::bad_plan);
  const KvBlockId twice[] = {KvBlockId{0}, KvBlockId{1}, KvBlockId{1}};
  EXPECT_EQ(engine.export_kv(StateSlotId{0}, twice).error().code, ErrorCode::bad_plan);
  const KvBlockId wrong[] = {KvBlockId{0}, KvBlockId{1}, KvBlockId{7}};
  EXPECT_EQ(engine.export_kv(StateSlotId{0}, wrong).error().code, ErrorCode::bad_digest);
  EXPECT_EQ(engine.export_kv(StateSlotId{1}, two).error().code, ErrorCode::bad_plan);
  EXPECT_EQ(engine.export_kv(StateSlotId{-1}, two).error().code, ErrorCode::bad_plan);
  EXPECT_EQ(engine.import_regions(StateSlotId{4}, two).error().code, ErrorCode::bad_plan);
  EXPECT_EQ(handoff.target->import_kv(handoff.manifest, StateSlotId{2}, two).error().code,
            ErrorCode::bad_plan);
  // Between import_regions and import_kv the slot is empty.
  ASSERT_TRUE(engine.import_regions(StateSlotId{0}, two).ok());
  EXPECT_EQ(engine.export_kv(StateSlotId{0}, wrong).error().code, ErrorCode::bad_plan);
}

} // namespace
} // namespace troupe::engine
