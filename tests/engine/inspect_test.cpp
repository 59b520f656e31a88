// Inspection: the bundled model, the released inventory as sparse files, and damaged folders.

#include "engine/inspect.hpp"
#include "tests/support/checkpoint_files.hpp"
#include "tests/support/released_checkpoint.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <map>

namespace troupe::engine {
namespace {

using test::ScratchFolder;
using test::write_file;

const std::string kNano = TROUPE_SOURCE_DIR "/examples/models/nano-v4.1";

const TensorGroup* find_group(const std::vector<TensorGroup>& groups, const std::string& name) {
  for (const TensorGroup& group : groups) {
    if (group.name == name) return &group;
  }
  return nullptr;
}

TEST(Inspect, TheBundledModelIsComplete) {
  auto facts = inspect_checkpoint(kNano, {});
  ASSERT_TRUE(facts.ok()) << facts.error().message;
  EXPECT_TRUE(facts->complete());
  EXPECT_TRUE(facts->inventory.unknown.empty());
  EXPECT_TRUE(facts->inventory.missing_unused.empty());
  EXPECT_TRUE(facts->size_note.empty());
  EXPECT_EQ(facts->shards, 4);
  std::int64_t by_kind = 0;
  for (const TensorGroup& group : facts->kinds)
    by_kind += group.bytes;
  EXPECT_EQ(by_kind, facts->tensor_bytes);
  const TensorGroup* draft = find_group(facts->kinds, "draft");
  ASSERT_NE(draft, nullptr);
  EXPECT_FALSE(draft->used);
  EXPECT_EQ(facts->used_bytes, facts->tensor_bytes - draft->bytes);
  EXPECT_EQ(find_group(facts->kinds, "unknown"), nullptr);
  EXPECT_EQ(find_group(facts->kinds, "experts")->tensors, 12 * 16 * 6);
  ASSERT_EQ(facts->memory.size(), 2U);
  for (const KvMemory& memory : facts->memory) {
    EXPECT_TRUE(memory.problem.empty()) << memory.problem;
    EXPECT_LE(memory.slots * memory.slot_bytes + memory.blocks * memory.block_bytes, 512LL << 20);
    EXPECT_GT(memory.slots * memory.slot_bytes + (memory.blocks + 1) * memory.block_bytes,
              512LL << 20);
  }
  EXPECT_GT(facts->memory[1].slot_bytes, facts->memory[0].slot_bytes);
}

TEST(Inspect, ReportsSayTheSameInTextAndJson) {
  auto facts = inspect_checkpoint(kNano, {});
  ASSERT_TRUE(facts.ok());
  const std::string text = inspect_text(*facts);
  for (const char* part : {"layers 12, hidden 256, vocabulary 4096", "ratios 0x2 2x4 1x6", "draft ",
                           "present, unused", "packed", "every tensor that is needed is there"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  const auto json = nlohmann::json::parse(inspect_json(*facts));
  EXPECT_EQ(json["identity"], facts->identity);
  EXPECT_EQ(json["complete"], true);
  EXPECT_EQ(json["config"]["kv_sources"], (std::vector<int>{2, 4, 6}));
  EXPECT_EQ(json["kinds"]["draft"]["used"], false);
  EXPECT_EQ(json["memory"][0]["block_bytes"], facts->memory[0].block_bytes);
}

TEST(Inspect, SettingsThatDoNotWorkAreSaid) {
  auto facts = inspect_checkpoint(kNano, {.block_tokens = 3});
  ASSERT_TRUE(facts.ok());
  EXPECT_NE(facts->memory[0].problem.find("block_tokens"), std::string::npos);
  facts = inspect_checkpoint(kNano, {.kv_memory_bytes = 1000});
  ASSERT_TRUE(facts.ok());
  EXPECT_NE(facts->memory[0].problem.find("kv.memory: found 1000 bytes"), std::string::npos);
  EXPECT_NE(inspect_text(*facts).find("does not work"), std::string::npos);
}

/// A folder with the bundled configuration and one shard of the tensors that `change` leaves.
template <class Change>
InspectFacts inspect_changed(Change change) {
  ScratchFolder folder;
  for (const char* name : {"config.json", "engram.json"}) {
    write_file(folder / name, test::read_file(kNano + "/" + name));
  }
  auto checkpoint = Checkpoint::open(kNano, CheckpointMode::headers);
  EXPECT_TRUE(checkpoint.ok());
  std::map<std::string, test::TensorSpec> tensors;
  for (const TensorInfo& info : checkpoint->tensors()) {
    tensors[info.name] = test::zeros(info.name, std::string(dtype_name(info.dtype)), info.shape);
  }
  change(tensors);
  std::vector<test::TensorSpec> list;
  for (auto& [name, tensor] : tensors)
    list.push_back(std::move(tensor));
  write_file(folder / "model.safetensors", test::safetensors_bytes(list));
  auto facts = inspect_checkpoint(folder.path(), {});
  EXPECT_TRUE(facts.ok()) << facts.error().message;
  return *facts;
}

using Tensors = std::map<std::string, test::TensorSpec>;
using Names = std::vector<std::string>;

TEST(Inspect, MissingTensorsAreNamed) {
  const InspectFacts facts = inspect_changed([](Tensors& tensors) {
    tensors.erase("layers.3.attn.wkv.scale");
    tensors.erase("layers.2.attn.compressor.wgate.weight");
    tensors.erase("mtp.2.norm.weight");
  });
  EXPECT_FALSE(facts.complete());
  EXPECT_EQ(facts.inventory.missing,
            (Names{"layers.2.attn.compressor.wgate.weight", "layers.3.attn.wkv.scale"}));
  EXPECT_EQ(facts.inventory.missing_unused, Names{"mtp.2.norm.weight"});
  EXPECT_NE(inspect_text(facts).find("this checkpoint cannot be run"), std::string::npos);
}

TEST(Inspect, OnlyUnusedTensorsMayBeMissing) {
  const InspectFacts facts = inspect_changed([](Tensors& tensors) {
    std::erase_if(tensors, [](const auto& entry) { return entry.first.starts_with("mtp."); });
  });
  EXPECT_TRUE(facts.complete());
  EXPECT_FALSE(facts.inventory.missing_unused.empty());
}

TEST(Inspect, OtherShapesAndDtypesAreNamed) {
  const InspectFacts facts = inspect_changed([](Tensors& tensors) {
    tensors["norm.weight"] = test::zeros("norm.weight", "BF16", {255});
    tensors["layers.0.attn.q_norm.weight"] =
        test::zeros("layers.0.attn.q_norm.weight", "F8_E4M3", {96});
    tensors["layers.0.attn.wq_a.weight"] =
        test::zeros("layers.0.attn.wq_a.weight", "U8", {96, 128});
    tensors["layers.0.ffn.experts.0.w1.scale"] =
        test::zeros("layers.0.ffn.experts.0.w1.scale", "F8_E8M0", {64, 7});
    tensors["extra"] = test::zeros("extra", "F32", {1});
  });
  const std::string all = testing::PrintToString(facts.inventory.wrong);
  EXPECT_EQ(facts.inventory.wrong.size(), 4U) << all;
  for (const char* part :
       {"'norm.weight': is BF16 [255], expected BF16 or F32 [256]",
        "'layers.0.attn.q_norm.weight': is F8_E4M3 [96], expected BF16 or F32",
        "'layers.0.attn.wq_a.weight': is U8 [96, 128], expected F8_E4M3, I8 (two",
        "w1.scale': is F8_E8M0 [64, 7], expected F8_E8M0 [64, 8]"}) {
    EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
  }
  // The FP8 scale of a matrix that is not FP8 belongs to nothing.
  EXPECT_EQ(facts.inventory.unknown, (Names{"extra", "layers.0.attn.wq_a.scale"}));
}

TEST(Inspect, MatricesMayBeStoredInAnyKnownFormat) {
  const InspectFacts facts = inspect_changed([](Tensors& tensors) {
    tensors.erase("layers.0.ffn.experts.0.w1.scale");
    tensors["layers.0.ffn.experts.0.w1.weight"] =
        test::zeros("layers.0.ffn.experts.0.w1.weight", "BF16", {64, 256});
    tensors["layers.0.ffn.experts.0.w2.weight"] =
        test::zeros("layers.0.ffn.experts.0.w2.weight", "F8_E4M3", {256, 64});
    tensors["layers.0.ffn.experts.0.w2.scale"] =
        test::zeros("layers.0.ffn.experts.0.w2.scale", "F8_E8M0", {8, 2});
    tensors["layers.0.attn.wq_a.weight"] =
        test::zeros("layers.0.attn.wq_a.weight", "I8", {96, 128});
    tensors["layers.0.attn.wq_a.scale"] =
        test::zeros("layers.0.attn.wq_a.scale", "F8_E8M0", {96, 8});
  });
  EXPECT_TRUE(facts.complete()) << testing::PrintToString(facts.inventory.wrong);
}

// -- the released model ---------------------------------------------------------------------------

TEST(Inspect, TheReleasedInventoryIsReadFromSparseFiles) {
  const ScratchFolder folder;
  test::write_released_inventory(folder.path());

  const auto begin = std::chrono::steady_clock::now();
  auto facts = inspect_checkpoint(folder.path(), {.kv_memory_bytes = 8LL << 30});
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  ASSERT_TRUE(facts.ok()) << facts.error().message;
  std::printf("full-size inspection: %lld ms\n", static_cast<long long>(ms.count()));
  EXPECT_LT(ms.count(), 60'000);
  // Published counts and total of the released checkpoint.
  EXPECT_EQ(facts->tensors, 96'085);
  EXPECT_EQ(facts->tensor_bytes, 510'286'023'000);
  const std::pair<const char*, std::int64_t> counts[] = {
      {"BF16", 520}, {"F32", 387}, {"F8_E4M3", 357}, {"I8", 47'232}, {"F8_E8M0", 47'589}};
  for (const auto& [dtype, tensors_of] : counts) {
    EXPECT_EQ(find_group(facts->dtypes, dtype)->tensors, tensors_of) << dtype;
  }
  EXPECT_EQ(find_group(facts->kinds, "vision")->tensors, 266);
  EXPECT_EQ(find_group(facts->kinds, "draft")->tensors, 801 + 798 + 802);
  EXPECT_TRUE(facts->inventory.missing.empty());
  EXPECT_TRUE(facts->inventory.wrong.empty()) << facts->inventory.wrong[0];
  EXPECT_TRUE(facts->inventory.unknown.empty());
  EXPECT_FALSE(facts->complete()) << "it asks for engram.json";
  EXPECT_EQ(facts->memory[0].token_bytes, 890) << "the published growth of the cache";
}

TEST(Inspect, TheMicroModelIsComplete) {
  const std::string shared = test::shared_folder();
  if (shared.empty()) GTEST_SKIP() << "shared material is absent";
  auto facts = inspect_checkpoint(shared + "/models/micro-v4.1", {});
  ASSERT_TRUE(facts.ok()) << facts.error().message;
  EXPECT_TRUE(facts->complete()) << inspect_text(*facts);
  EXPECT_TRUE(facts->inventory.unknown.empty());
  EXPECT_TRUE(facts->inventory.missing_unused.empty());
  EXPECT_EQ(find_group(facts->kinds, "vision")->used, false);
}

TEST(Inspect, KindsFollowNames) {
  const std::pair<const char*, TensorKind> cases[] = {
      {"embed.weight", TensorKind::embedding},
      {"norm.weight", TensorKind::norm},
      {"layers.3.attn_norm.weight", TensorKind::norm},
      {"layers.39.attn.wo_b.scale", TensorKind::attention},
      {"layers.20.attn.compressor.wkv.weight", TensorKind::attention},
      {"layers.20.attn.indexer.wk.weight", TensorKind::indexer},
      {"layers.0.hc_ffn_fn", TensorKind::hyper},
      {"layers.0.ffn.gate.bias_vl", TensorKind::router},
      {"layers.0.ffn.experts.383.w2.scale", TensorKind::experts},
      {"layers.0.ffn.shared_experts.w1.weight", TensorKind::shared_experts},
      {"layers.14.engram.embed.scale", TensorKind::engram},
      {"mtp.1.attn.wkv.weight", TensorKind::draft},
      {"aligner.w1.bias", TensorKind::vision},
      {"image_newline", TensorKind::vision},
      {"layers.x.attn.wkv.weight", TensorKind::unknown},
      {"layers.5", TensorKind::unknown},
      {"", TensorKind::unknown},
  };
  for (const auto& [name, kind] : cases)
    EXPECT_EQ(tensor_kind(name), kind) << name;
}

} // namespace
} // namespace troupe::engine
