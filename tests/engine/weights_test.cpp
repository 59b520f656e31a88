// Loading a whole checkpoint: what is wrong with a tensor is said with its name.

#include "engine/engine.hpp"
#include "tests/support/checkpoint_files.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace {

using namespace troupe;
using namespace troupe::engine;

/// The bundled model in a fresh folder, to be damaged.
class DamagedModel : public testing::Test {
protected:
  void SetUp() override {
    const std::filesystem::path from =
        std::filesystem::path(TROUPE_SOURCE_DIR) / "examples/models/nano-v4.1";
    for (const auto& entry : std::filesystem::directory_iterator(from)) {
      std::filesystem::copy_file(entry.path(), folder_ / entry.path().filename().string());
    }
  }

  /// Replaces text once in each shard's header; both texts have one length.
  void edit_headers(const std::string& from, const std::string& to) {
    ASSERT_EQ(from.size(), to.size());
    int found = 0;
    for (int shard = 1; shard <= 4; ++shard) {
      const std::string path =
          folder_ / ("model-0000" + std::to_string(shard) + "-of-00004.safetensors");
      std::string bytes = test::read_file(path);
      const std::size_t at = bytes.find(from);
      if (at == std::string::npos) continue;
      bytes.replace(at, from.size(), to);
      test::write_file(path, bytes);
      ++found;
    }
    ASSERT_EQ(found, 1);
  }

  std::string load_error() {
    EngineOptions options;
    options.model_path = folder_.path();
    auto weights = load_weights(options);
    EXPECT_FALSE(weights.ok());
    return weights.ok() ? "" : weights.error().message;
  }

  test::ScratchFolder folder_;
};

TEST_F(DamagedModel, NamesTheTensorOfAWrongShape) {
  edit_headers(R"("layers.3.attn.kv_norm.weight":{"dtype":"BF16","shape":[64])",
               R"("layers.3.attn.kv_norm.weight":{"dtype":"BF16","shape":[ 8])");
  EXPECT_NE(load_error().find("layers.3.attn.kv_norm.weight"), std::string::npos);
}

TEST_F(DamagedModel, NamesTheTensorOfAWrongType) {
  edit_headers(R"("layers.2.attn.attn_sink":{"dtype":"F32")",
               R"("layers.2.attn.attn_sink":{"dtype":"I32")");
  const std::string message = load_error();
  EXPECT_NE(message.find("layers.2.attn.attn_sink"), std::string::npos) << message;
  EXPECT_NE(message.find("I32"), std::string::npos) << message;
}

TEST_F(DamagedModel, RefusesNanCodes) {
  const std::string path = folder_ / "model-00001-of-00004.safetensors";
  std::string bytes = test::read_file(path);
  // The shard ends with one-byte data: e4m3 codes, e2m1 pairs or scales of some layer.
  const std::size_t header = static_cast<std::size_t>(static_cast<unsigned char>(bytes[0])) +
                             256 * static_cast<std::size_t>(static_cast<unsigned char>(bytes[1]));
  ASSERT_LT(header, bytes.size());
  for (std::size_t i = bytes.size() - 200'000; i < bytes.size(); ++i)
    bytes[i] = '\xFF';
  test::write_file(path, bytes);
  const std::string message = load_error();
  EXPECT_NE(message.find("is NaN or infinite"), std::string::npos) << message;
}

TEST_F(DamagedModel, NamesAMissingShard) {
  std::filesystem::remove(folder_ / "model-00003-of-00004.safetensors");
  EXPECT_NE(load_error().find("model-00003-of-00004.safetensors"), std::string::npos);
}

} // namespace
