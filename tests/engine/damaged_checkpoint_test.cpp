// Goal: whatever is wrong with a checkpoint, the first reader that can notice it says so in one
// message with file, place, what was found, what was expected and what to do; in bounded time.
// Method: the table of damages, each done to a sound checkpoint, against the loaders themselves.

#include "engine/engine.hpp"
#include "engine/inspect.hpp"
#include "engine/text/chat_format.hpp"
#include "engine/text/chat_renderer.hpp"
#include "engine/text/tokenizer.hpp"
#include "tests/support/damaged_checkpoints.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <sys/resource.h>
#include <unistd.h>

namespace troupe::engine {
namespace {

using test::Damage;
using test::Noticed;
using test::ScratchFolder;
using test::TinyCheckpoint;

constexpr std::int64_t kSecondsMax = 10;
constexpr std::size_t kMessageBytesMax = 1500;

/// The sound checkpoint; making it takes longer than writing it.
const TinyCheckpoint& sound() {
  static const TinyCheckpoint tiny;
  return tiny;
}

std::string loading_error(const std::string& folder) {
  EngineOptions options;
  options.model_path = folder;
  const auto weights = load_weights(options);
  return weights.ok() ? "" : weights.error().message;
}

std::string inspect_error(const std::string& folder) {
  const auto facts = inspect_checkpoint(folder, {});
  return facts.ok() ? "" : facts.error().message;
}

/// What the tokenizer of a folder lacks for its chat format.
std::string markers_error(const std::string& folder, const text::ChatFormat& format) {
  const auto tokenizer = text::Tokenizer::load(folder + "/tokenizer.json");
  if (!tokenizer.ok()) return "";
  const Status complete = text::check_markers(**tokenizer, format, folder + "/tokenizer.json",
                                              folder + "/encoding.json");
  return complete.error().message;
}

TEST(DamagedCheckpoint, TheUndamagedOneIsSound) {
  const ScratchFolder scratch;
  const std::string folder = scratch / "model";
  sound().write(folder);
  const auto facts = inspect_checkpoint(folder, {.block_tokens = 16});
  ASSERT_TRUE(facts.ok()) << facts.error().message;
  EXPECT_TRUE(facts->complete()) << inspect_text(*facts);
  EXPECT_TRUE(facts->inventory.unknown.empty());
  EXPECT_EQ(loading_error(folder), "");
  EXPECT_TRUE(text::Tokenizer::load(folder + "/tokenizer.json").ok());
  const auto format = text::load_chat_format(folder + "/encoding.json");
  ASSERT_TRUE(format.ok());
  EXPECT_EQ(markers_error(folder, *format), "");
}

// The largest scales under which every code is a float32.
TEST(DamagedCheckpoint, TheLargestFiniteScalesAreSound) {
  const ScratchFolder scratch;
  TinyCheckpoint tiny = sound();
  tiny.tensors.at("layers.3.attn.wo_b.scale").bytes[0] = static_cast<char>(246);
  tiny.tensors.at("layers.2.ffn.experts.1.w3.scale").bytes[0] = static_cast<char>(252);
  tiny.tensors.at("layers.1.engram.embed.scale").bytes[0] = static_cast<char>(246);
  tiny.write(scratch / "model");
  EXPECT_EQ(loading_error(scratch / "model"), "");
}

// What keeps a checkpoint from being run is told whole: the first thing, and how many others.
TEST(DamagedCheckpoint, TheFirstOfSeveralIsNamedWithTheNumberOfOthers) {
  const ScratchFolder scratch;
  TinyCheckpoint tiny = sound();
  tiny.tensors.erase("layers.3.ffn.experts.1.w2.weight");
  tiny.tensors["norm.weight"] = test::zeros("norm.weight", "BF16", {31});
  tiny.tensors["layers.0.attn_norm.weight"] =
      test::zeros("layers.0.attn_norm.weight", "BF16", {31});
  const std::string folder = scratch / "model";
  tiny.write(folder);
  const auto facts = inspect_checkpoint(folder, {.block_tokens = 16});
  ASSERT_TRUE(facts.ok()) << facts.error().message;
  const std::string message = check_complete(*facts).error().message;
  EXPECT_TRUE(message.starts_with(folder + "/")) << message;
  for (const char* part :
       {".safetensors: tensor 'norm.weight': is BF16 [31], expected BF16 or F32 [32]",
        "and 2 tensors more are wrong or missing", "`troupe inspect "})
    EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
}

/// No file can be opened while it lives, as when the limit is reached.
class NoOpenFiles {
public:
  NoOpenFiles() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const int next = ::dup(0);
    ::close(next);
    const rlimit none{static_cast<rlim_t>(next), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    limit_ = "may have " + std::to_string(next) + " open (ulimit -n)";
  }
  ~NoOpenFiles() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  NoOpenFiles(const NoOpenFiles&) = delete;
  NoOpenFiles& operator=(const NoOpenFiles&) = delete;
  const std::string& limit() const { return limit_; }

private:
  rlimit before_{};
  std::string limit_;
};

TEST(DamagedCheckpoint, TheLimitOfOpenFilesIsTold) {
  const ScratchFolder scratch;
  const std::string folder = scratch / "model";
  sound().write(folder);
  std::string limit;
  std::vector<std::string> messages;
  {
    const NoOpenFiles none;
    limit = none.limit();
    messages = {loading_error(folder), inspect_error(folder)};
    messages.push_back(text::Tokenizer::load(folder + "/tokenizer.json").error().message);
    messages.push_back(text::load_chat_format(folder + "/encoding.json").error().message);
  }
  for (const std::string& message : messages) {
    EXPECT_TRUE(message.starts_with(folder + "/")) << message;
    for (const std::string& part : {std::string("Too many open files"), limit,
                                    std::string("raise the limit, as in ulimit -n")})
      EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
    EXPECT_EQ(message.find("fetch it again"), std::string::npos) << message;
  }
}

TEST(DamagedCheckpoint, KindsAreDistinctAndMany) {
  std::set<std::string> names;
  for (const Damage& damage : test::all_damages())
    EXPECT_TRUE(names.insert(damage.name).second) << damage.name;
  EXPECT_GE(names.size(), 150U);
}

class EveryDamage : public testing::TestWithParam<Damage> {
protected:
  void SetUp() override {
    folder_ = scratch_ / "model";
    TinyCheckpoint tiny = sound();
    if (GetParam().change) GetParam().change(tiny);
    tiny.write(folder_);
    if (GetParam().destroy) GetParam().destroy(folder_);
  }

  /// One line that names file and place, and what to do.
  void expect_message(const std::string& message) {
    ASSERT_NE(message, "") << "nobody noticed";
    EXPECT_TRUE(message.starts_with(folder_)) << message;
    for (const std::string& part : GetParam().parts)
      EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
    EXPECT_NE(message.find("; "), std::string::npos) << "what to do? " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LE(message.size(), kMessageBytesMax);
  }

  ScratchFolder scratch_;
  std::string folder_;
};

TEST_P(EveryDamage, IsNoticedWithOneMessage) {
  const auto begin = std::chrono::steady_clock::now();
  const Noticed noticed = GetParam().noticed;
  if (noticed == Noticed::config || noticed == Noticed::headers) {
    expect_message(inspect_error(folder_));
    expect_message(loading_error(folder_));
  } else if (noticed == Noticed::inventory) {
    const auto facts = inspect_checkpoint(folder_, {});
    ASSERT_TRUE(facts.ok()) << facts.error().message;
    EXPECT_FALSE(facts->complete());
    const std::size_t engram = facts->config.engram.incomplete.empty() ? 0 : 1;
    EXPECT_EQ(facts->inventory.missing.size() + facts->inventory.wrong.size() + engram, 1U);
    expect_message(loading_error(folder_));
    expect_message(check_complete(*facts).error().message);
  } else if (noticed == Noticed::values) {
    const auto facts = inspect_checkpoint(folder_, {});
    EXPECT_TRUE(facts.ok() && facts->complete()) << "headers alone are sound";
    expect_message(loading_error(folder_));
  } else if (noticed == Noticed::tokenizer) {
    const auto tokenizer = text::Tokenizer::load(folder_ + "/tokenizer.json");
    expect_message(tokenizer.ok() ? "" : tokenizer.error().message);
  } else {
    const auto format = text::load_chat_format(folder_ + "/encoding.json");
    expect_message(format.ok() ? markers_error(folder_, *format) : format.error().message);
  }
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(std::chrono::duration_cast<std::chrono::seconds>(took).count(), kSecondsMax);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryDamage, testing::ValuesIn(test::all_damages()),
                         [](const auto& tested) { return tested.param.name; });

// -- files that this user may not read ------------------------------------------------------------

/// Another user for the length of a block, when this one is root.
class Nobody {
public:
  Nobody() : is_root_(::geteuid() == 0) {
    if (is_root_) {
      EXPECT_EQ(::seteuid(65534), 0);
    }
  }
  ~Nobody() {
    if (is_root_) {
      EXPECT_EQ(::seteuid(0), 0);
    }
  }
  Nobody(const Nobody&) = delete;
  Nobody& operator=(const Nobody&) = delete;

private:
  bool is_root_;
};

TEST(DamagedCheckpoint, AFileThatMayNotBeReadIsNamed) {
  const ScratchFolder scratch;
  const std::string folder = scratch / "model";
  sound().write(folder);
  std::filesystem::permissions(scratch.path(), std::filesystem::perms(0755));
  for (const char* name : {"config.json", "generation_config.json", "engram.json", test::kTinyIndex,
                           test::kTinyShards[0]}) {
    const std::string path = folder + "/" + name;
    std::filesystem::permissions(path, std::filesystem::perms::none);
    {
      const Nobody nobody;
      EXPECT_EQ(inspect_error(folder), path + ": cannot be opened (Permission denied), expected a "
                                              "file that can be read; fetch it again or name "
                                              "another");
      EXPECT_TRUE(loading_error(folder).starts_with(path + ": cannot be opened")) << name;
    }
    std::filesystem::permissions(path, std::filesystem::perms(0644));
  }
  std::filesystem::permissions(folder, std::filesystem::perms::none);
  {
    const Nobody nobody;
    EXPECT_TRUE(inspect_error(folder).starts_with(folder + "/config.json: cannot be opened"));
  }
  std::filesystem::permissions(folder, std::filesystem::perms(0755));
}

// -- every number of the configuration ------------------------------------------------------------

/// Values that no number of a configuration should survive unseen.
std::vector<nlohmann::ordered_json> absurd_values() {
  return {0,
          -1,
          2147483648,
          9223372036854775807,
          18446744073709551615ULL,
          1e308,
          -1e-308,
          0.5,
          "text",
          nullptr,
          nlohmann::ordered_json::array(),
          false,
          nlohmann::ordered_json::object()};
}

/// Reads a changed configuration; a refusal must name the file, and what is accepted must be
/// usable.
void expect_guarded(const TinyCheckpoint& tiny, const std::string& what) {
  const ScratchFolder folder;
  for (const auto& [name, json] : {std::pair{"config.json", &tiny.config},
                                   {"generation_config.json", &tiny.generation},
                                   {"engram.json", &tiny.engram}})
    test::write_file(folder / name, json->dump());
  const auto config = read_model_config(folder.path());
  if (!config.ok()) {
    EXPECT_TRUE(config.error().message.starts_with(folder.path())) << what;
    EXPECT_NE(config.error().message.find("; "), std::string::npos) << config.error().message;
    return;
  }
  EXPECT_FALSE(expected_parameters(*config).empty()) << what;
  EXPECT_GT(config->block_multiple(), 0) << what;
}

TEST(DamagedConfig, EveryValueOfEveryKeyIsGuarded) {
  int kinds = 0;
  for (const auto& item : sound().config["text_config"].items()) {
    for (const auto& value : absurd_values()) {
      TinyCheckpoint tiny = sound();
      tiny.tensors.clear();
      tiny.text()[item.key()] = value;
      expect_guarded(tiny, item.key() + " = " + value.dump());
      ++kinds;
    }
  }
  for (const auto& item : sound().config.items()) {
    for (const auto& value : absurd_values()) {
      TinyCheckpoint tiny = sound();
      tiny.tensors.clear();
      tiny.config[item.key()] = value;
      expect_guarded(tiny, item.key() + " = " + value.dump());
      ++kinds;
    }
  }
  EXPECT_GT(kinds, 700);
  std::printf("%d values tried\n", kinds);
}

TEST(DamagedConfig, ARefusedNumberIsNamedByItsKey) {
  const char* numbers[] = {"vocab_size",     "hidden_size",       "num_hidden_layers",
                           "head_dim",       "q_lora_rank",       "o_lora_rank",
                           "sliding_window", "index_topk",        "max_position_embeddings",
                           "hc_mult",        "hc_sinkhorn_iters", "n_routed_experts",
                           "rope_theta",     "swiglu_limit",      "moe_intermediate_size"};
  for (const char* key : numbers) {
    for (const nlohmann::ordered_json& value :
         {nlohmann::ordered_json(-1), nlohmann::ordered_json(9223372036854775808ULL),
          nlohmann::ordered_json("8"), nlohmann::ordered_json()}) {
      TinyCheckpoint tiny = sound();
      tiny.text()[key] = value;
      const ScratchFolder folder;
      test::write_file(folder / "config.json", tiny.config.dump());
      const auto config = read_model_config(folder.path());
      ASSERT_FALSE(config.ok()) << key << " = " << value.dump();
      EXPECT_NE(config.error().message.find(std::string("text_config.") + key + ": is "),
                std::string::npos)
          << config.error().message;
    }
  }
}

} // namespace
} // namespace troupe::engine
