// Safetensors reader: real checkpoints read whole, and every damaged kind refused with its name.

#include "engine/model/safetensors.hpp"
#include "schedulers/core/rng.hpp"
#include "tests/support/checkpoint_files.hpp"
#include "tests/support/unsized_file.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sys/stat.h>

namespace troupe::engine {
namespace {

using test::index_json;
using test::safetensors_bytes;
using test::ScratchFolder;
using test::TensorSpec;
using test::write_file;
using test::zeros;

const std::string kNano = TROUPE_SOURCE_DIR "/examples/models/nano-v4.1";

float first_float(const TensorView& view) {
  float value = 0;
  std::memcpy(&value, view.bytes.data(), sizeof value);
  return value;
}

TEST(Safetensors, ReadsTheBundledCheckpoint) {
  auto checkpoint = Checkpoint::open(kNano);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->shards().size(), 4U);
  const auto bytes = checkpoint->bytes_by_dtype();
  std::int64_t sum = 0;
  for (const std::int64_t n : bytes)
    sum += n;
  EXPECT_EQ(sum, checkpoint->declared_bytes().value_or(0));
  auto view = checkpoint->find("embed.weight");
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->dtype, DType::bf16);
  EXPECT_EQ(shape_text(view->shape), "[4096, 256]");
  EXPECT_EQ(view->bytes.size(), 4096U * 256 * 2);
  for (std::size_t i = 1; i < checkpoint->tensors().size(); ++i) {
    ASSERT_LT(checkpoint->tensors()[i - 1].name, checkpoint->tensors()[i].name);
  }
}

// Its size says where tensors end, so it must be known; what it says of itself is not "0 bytes".
TEST(Safetensors, AFileThatIsToldToBeEmptyIsRefusedAsThat) {
  const test::UnsizedFile file("some bytes");
  for (const CheckpointMode mode : {CheckpointMode::headers, CheckpointMode::map}) {
    const auto checkpoint = Checkpoint::open(file.path(), mode);
    ASSERT_FALSE(checkpoint.ok());
    EXPECT_EQ(checkpoint.error().message,
              file.path() + ": is told to have 0 bytes but holds some, as files under /proc do, "
                            "expected a safetensors file of a known size; copy it to a disk and "
                            "name the copy");
  }
}

TEST(Safetensors, HeaderModeSeesTheSameTensors) {
  auto whole = Checkpoint::open(kNano);
  auto headers = Checkpoint::open(kNano, CheckpointMode::headers);
  ASSERT_TRUE(whole.ok() && headers.ok());
  ASSERT_EQ(whole->tensors().size(), headers->tensors().size());
  for (std::size_t i = 0; i < whole->tensors().size(); ++i) {
    EXPECT_EQ(whole->tensors()[i].name, headers->tensors()[i].name);
    EXPECT_EQ(whole->tensors()[i].offset_bytes, headers->tensors()[i].offset_bytes);
  }
}

TEST(Safetensors, ReadsASingleFileInAFolderOrByPath) {
  ScratchFolder folder;
  TensorSpec a = zeros("a", "F32", {2, 3});
  const float value = 1.5F;
  std::memcpy(a.bytes.data(), &value, sizeof value);
  write_file(folder / "model.safetensors",
             safetensors_bytes({a, zeros("b", "I64", {}), zeros("c", "BF16", {0, 7})}));
  for (const std::string& path : {folder.path(), folder / "model.safetensors"}) {
    auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    ASSERT_EQ(checkpoint->tensors().size(), 3U);
    EXPECT_EQ(first_float(*checkpoint->find("a")), 1.5F);
    EXPECT_EQ(checkpoint->find("b")->bytes.size(), 8U);
    EXPECT_TRUE(checkpoint->find("b")->shape.empty());
    EXPECT_EQ(checkpoint->find("c")->bytes.size(), 0U);
  }
}

TEST(Safetensors, ViewsSurviveAMoveOfTheCheckpoint) {
  ScratchFolder folder;
  write_file(folder / "x.safetensors", safetensors_bytes({zeros("a", "U8", {4})}));
  auto opened = Checkpoint::open(folder / "x.safetensors");
  ASSERT_TRUE(opened.ok());
  const auto view = opened->find("a");
  const Checkpoint moved = std::move(*opened);
  EXPECT_EQ(static_cast<int>(view->bytes[3]), 0);
  EXPECT_EQ(moved.find("a")->bytes.data(), view->bytes.data());
}

TEST(Safetensors, RequireNamesWhatWasFoundAndExpected) {
  ScratchFolder folder;
  write_file(folder / "x.safetensors", safetensors_bytes({zeros("a", "U8", {4})}));
  auto checkpoint = Checkpoint::open(folder / "x.safetensors");
  ASSERT_TRUE(checkpoint.ok());
  constexpr DType kWanted[] = {DType::f32, DType::bf16};
  constexpr std::int64_t kShape[] = {2, 2};
  const auto view = checkpoint->require("a", kWanted, kShape);
  ASSERT_FALSE(view.ok());
  EXPECT_NE(view.error().message.find("x.safetensors: tensor 'a': is U8 [4], expected F32 or BF16 "
                                      "[2, 2]"),
            std::string::npos)
      << view.error().message;
  EXPECT_NE(checkpoint->find("b").error().message.find("tensor 'b': is missing"),
            std::string::npos);
}

TEST(Safetensors, ReadsEveryGoldenAndSharedModel) {
  const std::string shared = test::shared_folder();
  if (shared.empty()) GTEST_SKIP() << "shared material is absent";
  auto micro = Checkpoint::open(shared + "/models/micro-v4.1");
  ASSERT_TRUE(micro.ok()) << micro.error().message;
  int files = 0;
  for (const char* set : {"/goldens/micro-v4.1", "/goldens/nano-v4.1"}) {
    for (const auto& entry : std::filesystem::directory_iterator(shared + set)) {
      auto golden = Checkpoint::open(entry.path().string());
      ASSERT_TRUE(golden.ok()) << golden.error().message;
      EXPECT_NE(golden->info("input_ids"), nullptr) << entry.path();
      ++files;
    }
  }
  EXPECT_GE(files, 15);
}

// -- damaged files: one header or folder a case, with the parts its message must have ------------

struct HeaderCase {
  const char* name;
  const char* header;
  std::size_t data_bytes;
  std::vector<const char*> parts;
};

const HeaderCase kHeaderCases[] = {
    {"NoJson", "{\"a\":", 0, {"no valid JSON at byte"}},
    {"TextAfterHeader", "{} x", 0, {"no valid JSON at byte"}},
    {"NotAnObject", "[1,2]", 0, {"is an array", "expected a JSON object"}},
    {"BadUtf8", "{\"a\xff\":1}", 0, {"no valid JSON"}},
    {"TensorIsNumber", R"({"a":3})", 0, {"tensor 'a'", "is number 3", "expected an object"}},
    {"UnknownDtype",
     R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})",
     4,
     {"tensor 'a'", "dtype is 'F33'", "one of F32 BF16"}},
    {"DtypeIsNumber",
     R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})",
     4,
     {"tensor 'a'", "dtype is number 7", "expected text"}},
    {"NoDtype", R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, {"tensor 'a'", "no dtype"}},
    {"NoShape", R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, {"tensor 'a'", "no shape"}},
    {"NoOffsets", R"({"a":{"dtype":"F32","shape":[1]}})", 4, {"tensor 'a'", "no data_offsets"}},
    {"DtypeTwice",
     R"({"a":{"dtype":"F32","dtype":"I8","shape":[1],"data_offsets":[0,4]}})",
     4,
     {"tensor 'a'", "'dtype' occurs twice"}},
    {"NegativeShape",
     R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})",
     4,
     {"tensor 'a'", "shape contains number -1", "expected integers from 0"}},
    {"FractionalShape",
     R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})",
     4,
     {"tensor 'a'", "shape contains number 1.5"}},
    {"NestedShape",
     R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})",
     4,
     {"tensor 'a'", "shape contains an array"}},
    {"ShapeIsText",
     R"({"a":{"dtype":"F32","shape":"1","data_offsets":[0,4]}})",
     4,
     {"tensor 'a'", "shape is text '1'"}},
    {"TooManyDimensions",
     R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})",
     1,
     {"tensor 'a'", "more than 8 dimensions"}},
    {"HugeShapeNumber",
     R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1]}})",
     1,
     {"tensor 'a'", "18446744073709551615", "2^63"}},
    {"ShapeOverflows",
     R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})",
     4,
     {"tensor 'a'", "overflows 63 bits"}},
    {"SizeMismatch",
     R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,20]}})",
     20,
     {"tensor 'a'", "F32 [2, 3] needs 24 bytes", "span 20"}},
    {"OffsetsBeyondData",
     R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
     4,
     {"tensor 'a'", "bytes 0 to 8", "holds 4 bytes"}},
    {"OffsetsReversed",
     R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[8,4]}})",
     8,
     {"tensor 'a'", "bytes 8 to 4"}},
    {"OneOffset",
     R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4]}})",
     4,
     {"tensor 'a'", "data_offsets has 1 numbers, expected 2"}},
    {"ThreeOffsets",
     R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})",
     4,
     {"tensor 'a'", "data_offsets has 3 numbers"}},
    {"Overlap",
     R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
     R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
     6,
     {"tensor 'b'", "overlap tensor 'a'", "bytes 0 to 4"}},
    {"Gap",
     R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
     R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})",
     6,
     {"from 2 of 6", "belong to no tensor"}},
    {"BytesAfterTheLastTensor",
     R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
     9,
     {"from 2 of 9", "belong to no tensor"}},
    {"NameTwice",
     R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
     R"("a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
     4,
     {"tensor 'a'", "occurs twice in the header"}},
    {"ControlCharactersInName",
     R"({"a\u001b[31m":{"dtype":"X"}})",
     0,
     {"tensor 'a\\x1b[31m'", "dtype is 'X'"}},
};

class DamagedHeader : public testing::TestWithParam<HeaderCase> {};

TEST_P(DamagedHeader, IsRefusedByName) {
  ScratchFolder folder;
  write_file(folder / "bad.safetensors",
             safetensors_bytes(GetParam().header, std::string(GetParam().data_bytes, '\0')));
  for (const CheckpointMode mode : {CheckpointMode::map, CheckpointMode::headers}) {
    auto checkpoint = Checkpoint::open(folder / "bad.safetensors", mode);
    ASSERT_FALSE(checkpoint.ok());
    const Error& error = checkpoint.error();
    EXPECT_EQ(error.code, ErrorCode::bad_checkpoint);
    EXPECT_NE(error.message.find("bad.safetensors: "), std::string::npos) << error.message;
    for (const char* part : GetParam().parts) {
      EXPECT_NE(error.message.find(part), std::string::npos)
          << error.message << "\n  lacks: " << part;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DamagedHeader, testing::ValuesIn(kHeaderCases),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(Safetensors, SkipsMetadataAndUnknownFields) {
  ScratchFolder folder;
  write_file(
      folder / "x.safetensors",
      safetensors_bytes(R"({"__metadata__":{"k":[1,{"z":null}]},"a":{"note":{"dtype":["F"]},)"
                        R"("more":[[1],2],"dtype":"U8","n":-1.5,"shape":[1],)"
                        R"("data_offsets":[0,1]}})",
                        "\1"));
  auto checkpoint = Checkpoint::open(folder / "x.safetensors");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors().size(), 1U);
}

TEST(Safetensors, DeepNestingCostsNoStack) {
  ScratchFolder folder;
  const std::string deep = "{\"a\":{\"x\":" + std::string(2'000'000, '[');
  write_file(folder / "x.safetensors", safetensors_bytes(deep, ""));
  auto checkpoint = Checkpoint::open(folder / "x.safetensors");
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_NE(checkpoint.error().message.find("no valid JSON"), std::string::npos);
}

/// Expects the error of opening `path` to have all `parts`.
void expect_refused(const std::string& path, ErrorCode code,
                    const std::vector<std::string>& parts) {
  auto checkpoint = Checkpoint::open(path);
  ASSERT_FALSE(checkpoint.ok()) << path;
  EXPECT_EQ(checkpoint.error().code, code) << checkpoint.error().message;
  for (const std::string& part : parts) {
    EXPECT_NE(checkpoint.error().message.find(part), std::string::npos)
        << checkpoint.error().message << "\n  lacks: " << part;
  }
}

TEST(Safetensors, RefusesBrokenLengths) {
  ScratchFolder folder;
  write_file(folder / "empty.safetensors", "");
  expect_refused(folder / "empty.safetensors", ErrorCode::bad_checkpoint,
                 {"empty.safetensors: has 0 bytes", "at least 8"});
  write_file(folder / "short.safetensors", "1234567");
  expect_refused(folder / "short.safetensors", ErrorCode::bad_checkpoint, {"has 7 bytes"});
  write_file(folder / "huge.safetensors", std::string(8, '\xff') + "{}");
  expect_refused(folder / "huge.safetensors", ErrorCode::bad_checkpoint,
                 {"header length is 18446744073709551615", "only 2 bytes follow"});
  write_file(folder / "pointer.safetensors",
             "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
  expect_refused(folder / "pointer.safetensors", ErrorCode::bad_checkpoint,
                 {"no safetensors file", "Git LFS"});
  // A sparse file whose header claims more than the format allows costs neither time nor memory.
  const std::string sparse = folder / "sparse.safetensors";
  write_file(sparse, std::string("\x00\xe1\xf5\x06\x00\x00\x00\x00", 8));
  std::filesystem::resize_file(sparse, 1'000'000'000'000);
  expect_refused(sparse, ErrorCode::bad_checkpoint,
                 {"header length is 116777216", "at most 100000000"});
  write_file(folder / "zero.safetensors", std::string(8, '\0'));
  expect_refused(folder / "zero.safetensors", ErrorCode::bad_checkpoint, {"no valid JSON"});
}

TEST(Safetensors, RefusesSpecialFiles) {
  ScratchFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe.safetensors").c_str(), 0600), 0);
  expect_refused(folder / "pipe.safetensors", ErrorCode::io_error,
                 {"pipe.safetensors: is a pipe", "expected a regular file"});
  expect_refused("/dev/zero", ErrorCode::io_error, {"/dev/zero", "device"});
  std::filesystem::create_directory(folder / "model.safetensors");
  expect_refused(folder.path(), ErrorCode::io_error, {"model.safetensors: is a folder"});
  expect_refused(folder / "absent", ErrorCode::not_found, {"absent: is not there"});
  ScratchFolder empty;
  expect_refused(empty.path(), ErrorCode::bad_checkpoint,
                 {"neither model.safetensors.index.json nor model.safetensors"});
}

/// A folder with shards one.safetensors {a, b} and two.safetensors {c} and the given index.
void write_two_shards(const ScratchFolder& folder, const std::string& index) {
  write_file(folder / "one.safetensors",
             safetensors_bytes({zeros("a", "U8", {1}), zeros("b", "U8", {1})}));
  write_file(folder / "two.safetensors", safetensors_bytes({zeros("c", "U8", {1})}));
  write_file(folder / "model.safetensors.index.json", index);
}

const std::string kOne = "one.safetensors";
const std::string kTwo = "two.safetensors";

TEST(Safetensors, ReadsTwoShards) {
  ScratchFolder folder;
  write_two_shards(folder, index_json({{"c", kTwo}, {"b", kOne}, {"a", kOne}}));
  auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors().size(), 3U);
  EXPECT_EQ(checkpoint->info("c")->shard, 1);
}

TEST(Safetensors, RefusesIndexAndShardsThatDisagree) {
  ScratchFolder folder;
  write_two_shards(folder, index_json({{"a", kOne}, {"b", kOne}, {"c", kTwo}, {"d", kTwo}}));
  expect_refused(folder.path(), ErrorCode::bad_checkpoint,
                 {"two.safetensors: tensor 'd': is missing", "index.json says it lies here"});
  write_two_shards(folder, index_json({{"a", kOne}, {"c", kTwo}}));
  expect_refused(folder.path(), ErrorCode::bad_checkpoint,
                 {"one.safetensors: tensor 'b': is here", "does not name it"});
  write_two_shards(folder, index_json({{"a", kOne}, {"b", kTwo}, {"c", kTwo}}));
  expect_refused(folder.path(), ErrorCode::bad_checkpoint, {"tensor 'b'"});
  write_two_shards(folder, index_json({{"a", kOne}, {"a", kOne}, {"b", kOne}, {"c", kTwo}}));
  expect_refused(folder.path(), ErrorCode::bad_checkpoint, {"weight_map.a: stands twice"});
  // Of two places for one tensor neither is guessed.
  write_two_shards(folder, index_json({{"a", kOne}, {"b", kOne}, {"a", kTwo}, {"c", kTwo}}));
  expect_refused(folder.path(), ErrorCode::bad_checkpoint, {"weight_map.a: stands twice"});
  write_two_shards(folder, index_json({{"a", kOne}, {"b", kOne}, {"c", "three.safetensors"}}));
  expect_refused(folder.path(), ErrorCode::bad_checkpoint,
                 {"three.safetensors: shard is missing", "such as 'c'", "fetch"});
  write_file(folder / "three.safetensors",
             safetensors_bytes({zeros("a", "U8", {1}), zeros("c", "U8", {1})}));
  expect_refused(folder.path(), ErrorCode::bad_checkpoint,
                 {"three.safetensors: tensor 'a': is here"});
}

TEST(Safetensors, RefusesPathsThatLeaveTheFolder) {
  for (const char* file : {"../one.safetensors", "/etc/passwd", "x/../../one.safetensors", "", ".",
                           "./one.safetensors", "x//y"}) {
    ScratchFolder folder;
    write_two_shards(folder, index_json({{"a", file}, {"b", kOne}, {"c", kTwo}}));
    expect_refused(folder.path(), ErrorCode::bad_checkpoint,
                   {"weight_map: tensor 'a'", "expected a file inside the checkpoint folder"});
  }
}

TEST(Safetensors, RefusesBrokenIndexes) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no valid JSON"},
      {"{", "no valid JSON at byte"},
      {"[]", "expected a JSON object"},
      {"7", "expected a JSON object"},
      {"{}", "weight_map: is missing"},
      {R"({"weight_map":["a"]})", "weight_map: expected an object"},
      {R"({"weight_map":null})", "weight_map: expected an object"},
      {R"({"weight_map":{"a":1}})", "tensor 'a': expected a file name"},
      {R"({"weight_map":{"a":["one.safetensors"]}})", "tensor 'a': expected a file name"},
      {R"({"weight_map":{"a":{"b":"one.safetensors"}}})", "tensor 'a': expected a file name"},
      {R"({"metadata":{},"metadata":{},"weight_map":{"a":"one.safetensors"}})",
       "metadata: stands twice in one object, expected once; the index is damaged"},
      {R"({"metadata":{"total_size":1,"total_size":2}})", "metadata.total_size: stands twice"},
      {R"({"weight_map":{"a":"one.safetensors"},"weight_map":{"b":"one.safetensors"}})",
       "weight_map: stands twice"},
      {R"({"other":[{"x":1},{"y":1,"y":2}]})", "other.y: stands twice"},
  };
  for (const auto& [text, part] : cases) {
    ScratchFolder folder;
    write_two_shards(folder, text);
    expect_refused(folder.path(), ErrorCode::bad_checkpoint, {"index.json: ", part});
  }
}

TEST(Safetensors, TruncatedCopiesOfARealShardAreRefused) {
  const std::string bytes = test::read_file(kNano + "/model-00004-of-00004.safetensors");
  ScratchFolder folder;
  for (const std::size_t size :
       {std::size_t{9}, std::size_t{100}, std::size_t{5000}, bytes.size() / 2, bytes.size() - 1}) {
    write_file(folder / "cut.safetensors", bytes.substr(0, size));
    expect_refused(folder / "cut.safetensors", ErrorCode::bad_checkpoint, {"cut.safetensors: "});
  }
}

// Random damage: the reader must answer, with tensors inside the file or with a message.
TEST(Safetensors, RandomDamageIsRefusedOrHarmless) {
  constexpr std::uint64_t kSeed = 20260728;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  Rng rng(kSeed);
  const std::string good =
      safetensors_bytes({zeros("a.weight", "F8_E4M3", {4, 8}), zeros("a.scale", "F8_E8M0", {1, 1}),
                         zeros("norm", "BF16", {8}), zeros("ids", "I64", {2})});
  ScratchFolder folder;
  const std::string path = folder / "x.safetensors";
  int refused = 0;
  for (int round = 0; round < 800; ++round) {
    std::string bytes = good;
    for (std::uint64_t n = 1 + rng.below(3); n > 0; --n) {
      const std::size_t at = rng.below(bytes.size());
      switch (rng.below(4)) {
      case 0:
        bytes[at] = static_cast<char>(rng.below(256));
        break;
      case 1:
        bytes[at] = "0123456789[]{}:,\"-."[rng.below(19)];
        break;
      case 2:
        bytes.erase(at, 1 + rng.below(4));
        break;
      default:
        bytes.insert(at, bytes.substr(rng.below(bytes.size()), rng.below(40)));
      }
    }
    write_file(path, bytes);
    auto checkpoint = Checkpoint::open(path);
    if (!checkpoint.ok()) {
      ++refused;
      EXPECT_NE(checkpoint.error().message.find("x.safetensors"), std::string::npos);
      continue;
    }
    for (const TensorInfo& tensor : checkpoint->tensors()) {
      const auto view = checkpoint->find(tensor.name);
      ASSERT_TRUE(view.ok());
      std::uint8_t sum = 0;
      for (const std::byte byte : view->bytes)
        sum ^= static_cast<std::uint8_t>(byte);
      static_cast<void>(sum);
      EXPECT_LE(tensor.offset_bytes + tensor.size_bytes, std::ssize(bytes));
    }
  }
  EXPECT_GT(refused, 400);
}

} // namespace
} // namespace troupe::engine
