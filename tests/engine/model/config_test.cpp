// Configuration reader: the real files give the published numbers, wrong ones are named by key.

#include "engine/model/config.hpp"
#include "engine/model/identity.hpp"
#include "schedulers/core/rng.hpp"
#include "tests/support/checkpoint_files.hpp"
#include "tests/support/unsized_file.hpp"

#include <gtest/gtest.h>

#include <cstdio>

namespace troupe::engine {
namespace {

using test::ScratchFolder;
using test::write_file;

const std::string kNano = TROUPE_SOURCE_DIR "/examples/models/nano-v4.1";
using Ints = std::vector<std::int64_t>;

TEST(Config, ReadsTheBundledModel) {
  auto config = read_model_config(kNano);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->vocab, 4096);
  EXPECT_EQ(config->hidden, 256);
  EXPECT_EQ(config->layers, 12);
  EXPECT_EQ(config->window, 64);
  EXPECT_EQ(config->norm_eps, 1e-20);
  EXPECT_EQ(config->yarn.factor, 4);
  EXPECT_EQ(config->ratios, (Ints{0, 0, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(config->draft.stages, 3);
  EXPECT_FALSE(config->vision.has_value());
  EXPECT_EQ(config->eos_tokens, std::vector<std::int32_t>{1});
  EXPECT_EQ(config->generation.temperature, 1.0);
  EXPECT_EQ(config->generation.top_p, 0.95);
  EXPECT_EQ(config->image_token, 4094);
  EXPECT_EQ(config->block_multiple(), 4);
}

TEST(Config, AFileThatIsToldToBeEmptyIsReadAllTheSame) {
  const ScratchFolder folder;
  const test::UnsizedFile file("{\"a\": 1, 2}");
  std::filesystem::create_symlink(file.path(), folder / "config.json");
  const auto config = read_model_config(folder.path());
  ASSERT_FALSE(config.ok());
  EXPECT_NE(config.error().message.find("config.json:1: byte 10: is no valid JSON"),
            std::string::npos)
      << config.error().message;
}

TEST(Config, LayerRolesFollowTheSources) {
  auto config = read_model_config(kNano);
  ASSERT_TRUE(config.ok());
  Ints kv;
  Ints topk;
  Ints restricted;
  for (std::int64_t layer = 0; layer < config->layers; ++layer) {
    kv.push_back(config->kv_owner(layer));
    topk.push_back(config->topk_owner(layer));
    if (config->uses_candidates(layer)) restricted.push_back(layer);
  }
  EXPECT_EQ(kv, (Ints{-1, -1, 2, 2, 4, 4, 6, 6, 6, 6, 6, 6}));
  EXPECT_EQ(topk, (Ints{-1, -1, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10}));
  EXPECT_EQ(restricted, (Ints{8, 10}));
  EXPECT_EQ(config->decoder_start(), 6);
  EXPECT_EQ(config->engram_index(1), 0);
  EXPECT_EQ(config->engram_index(4), 1);
  EXPECT_EQ(config->engram_index(2), -1);
}

TEST(Config, EngramFileOverridesWhatCouldBeDerived) {
  auto config = read_model_config(kNano);
  ASSERT_TRUE(config.ok());
  const EngramConfig& engram = config->engram;
  EXPECT_TRUE(engram.incomplete.empty());
  EXPECT_EQ(engram.primes, (std::vector<Ints>{{2003, 2011, 2017, 2027, 2029, 2039},
                                              {2053, 2063, 2069, 2081, 2083, 2087}}));
  EXPECT_EQ(engram.offsets[0], (Ints{0, 2003, 4014, 6031, 8058, 10087}));
  EXPECT_EQ(engram.multipliers[1][3], 592889924312079);
  EXPECT_EQ(engram.token_map.size(), 4096U);
  EXPECT_EQ(derive_engram_primes(2, 6, 2000), engram.primes);
}

/// Text of the bundled config.json with one piece replaced; the piece must be there once.
std::string changed(const std::string& file, const std::string& from, const std::string& to) {
  std::string text = test::read_file(kNano + "/" + file);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Config, ReleasedConfigurationHasItsTablesButAsksForTheTokenMap) {
  ScratchFolder folder;
  write_file(folder / "config.json",
             test::read_file(TROUPE_SOURCE_DIR "/tests/vectors/config_v4.1_flash.json"));
  auto config = read_model_config(folder.path());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->kv_owner(39), 20);
  EXPECT_EQ(config->topk_owner(39), 36);
  EXPECT_EQ(config->topk_owner(23), 20);
  EXPECT_EQ(config->kv_owner(7), 2);
  EXPECT_EQ(config->block_multiple(), 8);
  EXPECT_EQ(config->engram.primes[0].front(), 16000057);
  EXPECT_EQ(config->engram.primes[0].back(), 16000463);
  EXPECT_EQ(config->engram.primes[1].front(), 16000477);
  EXPECT_EQ(config->engram.primes[1].back(), 16000889);
  EXPECT_EQ(config->engram.multipliers[1][0], 67716810739261);
  EXPECT_NE(config->engram.incomplete.find("engram.json: is missing, and token_map cannot"),
            std::string::npos)
      << config->engram.incomplete;
}

TEST(Config, WithoutEngramFileTheMultipliersAreAskedFor) {
  ScratchFolder folder;
  write_file(folder / "config.json", test::read_file(kNano + "/config.json"));
  auto config = read_model_config(folder.path());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_NE(config->engram.incomplete.find("and multipliers token_map cannot be derived"),
            std::string::npos)
      << config->engram.incomplete;
  EXPECT_EQ(config->engram.primes.size(), 2U);
}

struct ChangeCase {
  const char* name;
  const char* from;
  const char* to;
  ErrorCode code;
  std::vector<const char*> parts;
};

const ChangeCase kConfigCases[] = {
    {"OtherModel",
     "\"model_type\": \"deepseek_v41\"",
     "\"model_type\": \"llama\"",
     ErrorCode::unsupported,
     {"config.json: model_type: is 'llama'", "deepseek_v41 only"}},
    {"OtherTextModel",
     "deepseek_v41_text",
     "deepseek_v5_text",
     ErrorCode::unsupported,
     {"text_config.model_type", "deepseek_v41_text only"}},
    {"NoTextConfig",
     "\"text_config\"",
     "\"text\"",
     ErrorCode::bad_checkpoint,
     {"text_config: is missing"}},
    {"OtherScoring",
     "sqrtsoftplus",
     "sigmoid",
     ErrorCode::unsupported,
     {"text_config.scoring_func: is 'sigmoid'", "sqrtsoftplus only"}},
    {"OtherTopk", "noaux_tc", "greedy", ErrorCode::unsupported, {"text_config.topk_method"}},
    {"OtherActivation",
     "\"silu\"",
     "\"gelu\"",
     ErrorCode::unsupported,
     {"text_config.hidden_act: is 'gelu'"}},
    {"Ratio3",
     "   2,\n   2,\n   2,\n   2,\n   1,",
     "   2,\n   2,\n   2,\n   3,\n   1,",
     ErrorCode::unsupported,
     {"text_config.compress_ratios[5]: is 3", "ratios 0, 1 and 2"}},
    {"NegativeRatio",
     "   2,\n   2,\n   2,\n   2,\n   1,",
     "   2,\n   2,\n   2,\n   -1,\n   1,",
     ErrorCode::unsupported,
     {"text_config.compress_ratios[5]: is -1"}},
    {"RatioOfAnotherOwner",
     "   2,\n   2,\n   2,\n   2,\n   1,",
     "   2,\n   2,\n   2,\n   1,\n   1,",
     ErrorCode::bad_checkpoint,
     {"compress_ratios[5]: is 1", "(layer 4)"}},
    {"TooFewRatios",
     "   0,\n   0,\n   0\n",
     "   0,\n   0\n",
     ErrorCode::bad_checkpoint,
     {"compress_ratios: has 14 entries, expected 15"}},
    {"HcNorm",
     "\"hc_mult\": 4",
     "\"hc_attn_norm\": true, \"hc_mult\": 4",
     ErrorCode::unsupported,
     {"text_config.hc_attn_norm: is present"}},
    {"HcNotShifted",
     "\"hc_mult\": 4",
     "\"hc_shifted\": false, \"hc_mult\": 4",
     ErrorCode::unsupported,
     {"text_config.hc_shifted: is false", "true only"}},
    {"HashLayers",
     "\"hc_mult\": 4",
     "\"num_hash_layers\": 3, \"hc_mult\": 4",
     ErrorCode::unsupported,
     {"text_config.num_hash_layers: is 3"}},
    {"ManyKvHeads",
     "\"num_key_value_heads\": 1",
     "\"num_key_value_heads\": 8",
     ErrorCode::unsupported,
     {"num_key_value_heads: is 8"}},
    {"TiedHead",
     "\"tie_word_embeddings\": false",
     "\"tie_word_embeddings\": true",
     ErrorCode::unsupported,
     {"tie_word_embeddings: is true"}},
    {"OtherRope",
     "\"yarn\"",
     "\"linear\"",
     ErrorCode::unsupported,
     {"text_config.rope_scaling.rope_type: is 'linear'"}},
    {"OtherQuant",
     "\"fp8\"",
     "\"awq\"",
     ErrorCode::unsupported,
     {"quantization_config.quant_method: is 'awq'"}},
    {"OtherBlock",
     "   32,\n   32\n",
     "   128,\n   128\n",
     ErrorCode::unsupported,
     {"quantization_config.weight_block_size", "[32, 32] only"}},
    {"MissingKey",
     "\"hidden_size\"",
     "\"hiden_size\"",
     ErrorCode::bad_checkpoint,
     {"text_config.hidden_size: is missing"}},
    {"TextForNumber",
     "\"hidden_size\": 256",
     "\"hidden_size\": \"256\"",
     ErrorCode::bad_checkpoint,
     {"text_config.hidden_size: is \"256\", expected a whole number from 1"}},
    {"Fraction",
     "\"num_hidden_layers\": 12",
     "\"num_hidden_layers\": 12.5",
     ErrorCode::bad_checkpoint,
     {"num_hidden_layers: is 12.5, expected a whole number"}},
    {"Negative",
     "\"head_dim\": 64",
     "\"head_dim\": -64",
     ErrorCode::bad_checkpoint,
     {"text_config.head_dim: is -64"}},
    {"TooLarge",
     "\"vocab_size\": 4096",
     "\"vocab_size\": 18446744073709551615",
     ErrorCode::bad_checkpoint,
     {"vocab_size: is 18446744073709551615"}},
    {"NotMultiple",
     "\"hidden_size\": 256",
     "\"hidden_size\": 250",
     ErrorCode::bad_checkpoint,
     {"hidden_size: is 250, expected a multiple of 32"}},
    {"RopeTooWide",
     "\"qk_rope_head_dim\": 32",
     "\"qk_rope_head_dim\": 66",
     ErrorCode::bad_checkpoint,
     {"qk_rope_head_dim: is 66, expected at most head_dim"}},
    {"RopeOdd",
     "\"qk_rope_head_dim\": 32",
     "\"qk_rope_head_dim\": 31",
     ErrorCode::bad_checkpoint,
     {"qk_rope_head_dim: is 31, expected a multiple of 2"}},
    {"GroupsDoNotDivide",
     "\"o_groups\": 2",
     "\"o_groups\": 3",
     ErrorCode::bad_checkpoint,
     {"num_attention_heads: is 4, expected a multiple of 3"}},
    {"TooManyActive",
     "\"num_experts_per_tok\": 2",
     "\"num_experts_per_tok\": 17",
     ErrorCode::bad_checkpoint,
     {"num_experts_per_tok: is 17", "n_routed_experts = 16"}},
    {"SourceOutOfRange",
     "   8,\n   10\n",
     "   8,\n   12\n",
     ErrorCode::bad_checkpoint,
     {"index_source_layer_ids[4]: is 12, expected less than num_hidden_layers"}},
    {"SourcesNotAscending",
     "   8,\n   10\n",
     "   8,\n   8\n",
     ErrorCode::bad_checkpoint,
     {"index_source_layer_ids[4]: is 8, expected more"}},
    {"SourceWithoutRows",
     "\"kv_source_layer_ids\": [\n   2,",
     "\"kv_source_layer_ids\": [\n   1,",
     ErrorCode::bad_checkpoint,
     {"kv_source_layer_ids[0]: is 1, a layer of ratio 0"}},
    {"KvSourceWithoutIndexer",
     "\"index_source_layer_ids\": [\n   2,\n   4,",
     "\"index_source_layer_ids\": [\n   2,",
     ErrorCode::bad_checkpoint,
     {"index_source_layer_ids: lacks kv source 4"}},
    {"CandidateSource",
     "\"candidate_source_layer_id\": 6",
     "\"candidate_source_layer_id\": 4",
     ErrorCode::bad_checkpoint,
     {"candidate_source_layer_id: is 4"}},
    {"EosOutside",
     "\"eos_token_id\": 1",
     "\"eos_token_id\": [1, 4096]",
     ErrorCode::bad_checkpoint,
     {"config.json: eos_token_id: is 4096, expected less than vocab_size"}},
    {"EngramRows",
     "   12126,",
     "   12127,",
     ErrorCode::bad_checkpoint,
     {"engram.json: primes[0]: add up to 12126", "engram_num_embeddings[0] = 12127"}},
    {"EngramLayerOutside",
     "\"engram_layer_ids\": [\n   1,\n   4",
     "\"engram_layer_ids\": [\n   1,\n   14",
     ErrorCode::bad_checkpoint,
     {"engram_layer_ids: contains 14"}},
    {"NoJson", "{", "", ErrorCode::bad_checkpoint, {"config.json:2: byte 18: is no valid JSON"}},
};

class ChangedConfig : public testing::TestWithParam<ChangeCase> {};

TEST_P(ChangedConfig, IsRefusedByKey) {
  ScratchFolder folder;
  write_file(folder / "config.json", changed("config.json", GetParam().from, GetParam().to));
  write_file(folder / "engram.json", test::read_file(kNano + "/engram.json"));
  auto config = read_model_config(folder.path());
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().code, GetParam().code) << config.error().message;
  for (const char* part : GetParam().parts) {
    EXPECT_NE(config.error().message.find(part), std::string::npos)
        << config.error().message << "\n  lacks: " << part;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ChangedConfig, testing::ValuesIn(kConfigCases),
                         [](const auto& param) { return std::string(param.param.name); });

const ChangeCase kEngramCases[] = {
    {"OtherLayers",
     "\"layers\": [\n  1,",
     "\"layers\": [\n  2,",
     ErrorCode::bad_checkpoint,
     {"engram.json: layers: is another list"}},
    {"MultiplierOverflows",
     "2396978428476841",
     "9223372036854775807",
     ErrorCode::bad_checkpoint,
     {"engram.json: multipliers: is 9223372036854775807"}},
    {"MissingMultiplier",
     "   2396978428476841,\n",
     "",
     ErrorCode::bad_checkpoint,
     {"engram.json: multipliers: has another shape, expected 2 lists of 4"}},
    {"PrimesAreFlat",
     "\"primes\": [\n  [",
     "\"primes\": [ 7,\n  [",
     ErrorCode::bad_checkpoint,
     {"engram.json: primes: is ", "expected a list of lists"}},
    {"ShortMap",
     "\"token_map\": [\n  0,\n",
     "\"token_map\": [\n",
     ErrorCode::bad_checkpoint,
     {"engram.json: token_map: has 4095 entries, expected vocab_size = 4096"}},
    {"MapOutside",
     "\"token_map\": [\n  0,\n",
     "\"token_map\": [\n  3168,\n",
     ErrorCode::bad_checkpoint,
     {"engram.json: token_map: is 3168, expected a whole number"}},
    {"NoMap",
     "\"token_map\"",
     "\"map\"",
     ErrorCode::bad_checkpoint,
     {"engram.json: token_map: is null (the identity), but"}},
};

class ChangedEngram : public testing::TestWithParam<ChangeCase> {};

TEST_P(ChangedEngram, IsRefusedByKey) {
  ScratchFolder folder;
  write_file(folder / "config.json", test::read_file(kNano + "/config.json"));
  write_file(folder / "engram.json", changed("engram.json", GetParam().from, GetParam().to));
  auto config = read_model_config(folder.path());
  ASSERT_FALSE(config.ok());
  for (const char* part : GetParam().parts) {
    EXPECT_NE(config.error().message.find(part), std::string::npos)
        << config.error().message << "\n  lacks: " << part;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ChangedEngram, testing::ValuesIn(kEngramCases),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(Config, GenerationFileDecidesSamplingAndEos) {
  ScratchFolder folder;
  write_file(folder / "config.json", test::read_file(kNano + "/config.json"));
  const std::string file = folder / "generation_config.json";
  auto config = read_model_config(folder.path());
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->generation.top_p, 1.0);
  write_file(file, R"({"eos_token_id":[1,7],"temperature":0.5,"top_k":20,"other":1})");
  config = read_model_config(folder.path());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->eos_tokens, (std::vector<std::int32_t>{1, 7}));
  EXPECT_EQ(config->generation.temperature, 0.5);
  EXPECT_EQ(config->generation.top_k, 20);
  write_file(file, R"({"do_sample":false,"temperature":0.5})");
  EXPECT_EQ(read_model_config(folder.path())->generation.temperature, 0.0);
  write_file(file, R"({"top_p":0})");
  EXPECT_NE(read_model_config(folder.path()).error().message.find("generation_config.json: top_p"),
            std::string::npos);
  write_file(file, R"({"eos_token_id":4096})");
  EXPECT_NE(read_model_config(folder.path()).error().message.find("eos_token_id: is 4096"),
            std::string::npos);
}

TEST(Config, UnknownKeysAndNullsAreIgnored) {
  ScratchFolder folder;
  write_file(folder / "config.json", changed("config.json", "\"gate_temp\": 1.0",
                                             "\"gate_temp\": null, \"n_group\": [[{}]]"));
  auto config = read_model_config(folder.path());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->gate_temp, 1.0);
  EXPECT_NE(read_model_config(folder / "absent").error().message.find("absent: is not there"),
            std::string::npos);
}

std::string identity_of(const std::string& folder) {
  auto checkpoint = Checkpoint::open(folder, CheckpointMode::headers);
  EXPECT_TRUE(checkpoint.ok());
  auto identity = checkpoint_identity(folder, *checkpoint);
  EXPECT_TRUE(identity.ok());
  return *identity;
}

TEST(Identity, FollowsSmallFilesHeadersAndSizesButNotThePath) {
  ScratchFolder one;
  std::filesystem::copy(kNano, one.path(),
                        std::filesystem::copy_options::recursive |
                            std::filesystem::copy_options::overwrite_existing);
  const std::string before = identity_of(kNano);
  EXPECT_EQ(before.size(), 32U);
  EXPECT_EQ(identity_of(one.path()), before);
  write_file(one / "README.md", "other");
  EXPECT_EQ(identity_of(one.path()), before);
  for (const char* name : {"tokenizer.json", "encoding.json", "generation_config.json",
                           "engram.json", "config.json"}) {
    const std::string text = test::read_file(one / name);
    write_file(one / name, text + " ");
    EXPECT_NE(identity_of(one.path()), before) << name;
    std::filesystem::remove(one / name);
    EXPECT_NE(identity_of(one.path()), before) << name;
    write_file(one / name, text);
    EXPECT_EQ(identity_of(one.path()), before) << name;
  }
  // A weight byte does not enter; a header byte does.
  const std::string shard = one / "model-00004-of-00004.safetensors";
  std::string bytes = test::read_file(shard);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(shard, bytes);
  EXPECT_EQ(identity_of(one.path()), before);
  bytes.replace(bytes.find("__metadata__\":{\"format\":\"pt\""), 28,
                "__metadata__\":{\"format\":\"pu\"");
  write_file(shard, bytes);
  EXPECT_NE(identity_of(one.path()), before);
}

// Random damage of the three files: an answer within the documented ranges, or a message.
TEST(Config, RandomDamageIsRefusedOrHarmless) {
  constexpr std::uint64_t kSeed = 20260729;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  Rng rng(kSeed);
  const std::vector<std::string> names = {"config.json", "engram.json", "generation_config.json"};
  ScratchFolder folder;
  int refused = 0;
  for (const std::string& name : names) {
    write_file(folder / name, test::read_file(kNano + "/" + name));
  }
  for (int round = 0; round < 400; ++round) {
    const std::string& name = names[rng.below(10) < 8 ? 0 : 1 + rng.below(2)];
    const std::string good = test::read_file(kNano + "/" + name);
    std::string text = good;
    const std::size_t at = rng.below(text.size());
    switch (rng.below(4)) {
    case 0:
      text[at] = "0123456789[]{}:,\"-.eE"[rng.below(21)];
      break;
    case 1:
      text.erase(at, 1 + rng.below(12));
      break;
    case 2:
      text.insert(at, "99999999999999999999", 1 + rng.below(20));
      break;
    default:
      text.insert(at, text.substr(rng.below(text.size()), rng.below(60)));
    }
    write_file(folder / name, text);
    auto config = read_model_config(folder.path());
    write_file(folder / name, good);
    if (!config.ok()) {
      ++refused;
      EXPECT_NE(config.error().message.find(name == "config.json" ? ".json" : name),
                std::string::npos)
          << config.error().message;
      continue;
    }
    EXPECT_EQ(std::ssize(config->ratios), config->layers);
    EXPECT_LE(config->experts_per_token, config->experts);
    EXPECT_EQ(config->engram.offsets.size(), config->engram.primes.size());
  }
  EXPECT_GT(refused, 150);
}

TEST(Config, ReadsTheMicroModel) {
  const std::string shared = test::shared_folder();
  if (shared.empty()) GTEST_SKIP() << "shared material is absent";
  auto config = read_model_config(shared + "/models/micro-v4.1");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_TRUE(config->engram.token_map.empty());
  EXPECT_TRUE(config->engram.incomplete.empty());
  ASSERT_TRUE(config->vision.has_value());
  EXPECT_EQ(config->vision->hidden, 64);
}

} // namespace
} // namespace troupe::engine
