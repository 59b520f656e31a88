// Damage to shards, index and folder.

#include "tests/support/damaged_checkpoints.hpp"

#include <cstring>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace troupe::test {

namespace {

namespace fs = std::filesystem;
using Folder = const std::string&;

const std::string kFirst = kTinyShards[0];
const std::string kSecond = kTinyShards[1];

/// Replaces `from` once by `to` in a file of the folder.
std::function<void(Folder)> edit(const std::string& file, const std::string& from,
                                 const std::string& to) {
  return [=](Folder folder) {
    std::string text = read_file(folder + "/" + file);
    const std::size_t at = text.find(from);
    if (at == std::string::npos) throw std::runtime_error(file + " lacks " + from);
    write_file(folder + "/" + file, text.replace(at, from.size(), to));
  };
}

/// As edit() in a shard's header, whose length field is kept true.
std::function<void(Folder)> edit_header(const std::string& file, const std::string& from,
                                        const std::string& to) {
  return [=](Folder folder) {
    const std::string bytes = read_file(folder + "/" + file);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    std::string header = bytes.substr(8, length);
    const std::size_t at = header.find(from);
    if (at == std::string::npos) throw std::runtime_error(file + " lacks " + from);
    header.replace(at, from.size(), to);
    write_file(folder + "/" + file, safetensors_bytes(header, bytes.substr(8 + length)));
  };
}

std::function<void(Folder)> replace(const std::string& file, const std::string& bytes) {
  return [=](Folder folder) { write_file(folder + "/" + file, bytes); };
}

/// The first eight bytes of a shard say `length`.
std::function<void(Folder)> header_length(std::uint64_t length) {
  return [=](Folder folder) {
    std::string bytes = read_file(folder + "/" + kFirst);
    std::memcpy(bytes.data(), &length, sizeof length);
    write_file(folder + "/" + kFirst, bytes);
  };
}

std::function<void(Folder)> cut_to(const std::string& file, std::uintmax_t bytes) {
  return [=](Folder folder) { fs::resize_file(folder + "/" + file, bytes); };
}

std::function<void(Folder)> instead(const std::string& file,
                                    const std::function<void(const char* path)>& make) {
  return [=](Folder folder) {
    const std::string path = folder + "/" + file;
    fs::remove(path);
    make(path.c_str());
  };
}

void make_pipe(const char* path) {
  if (::mkfifo(path, 0600) != 0) throw std::runtime_error("no pipe");
}
void make_folder(const char* path) { fs::create_directory(path); }
void make_device(const char* path) { fs::create_symlink("/dev/zero", path); }
void make_dangling(const char* path) { fs::create_symlink("/nowhere/at/all", path); }
void make_loop(const char* path) { fs::create_symlink(path, path); }
void make_socket(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  const int made = ::socket(AF_UNIX, SOCK_STREAM, 0);
  const bool bound =
      made >= 0 && ::bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(made);
  if (!bound) throw std::runtime_error("no socket");
}

/// The index says that "norm.weight" lies in `file`.
std::function<void(Folder)> placed_in(const std::string& file) {
  return edit(kTinyIndex, "\"norm.weight\":\"" + kSecond + "\"",
              "\"norm.weight\":\"" + file + "\"");
}

std::function<void(TinyCheckpoint&)> shaped(const std::string& name, const std::string& dtype,
                                            const std::vector<std::int64_t>& shape) {
  return [=](TinyCheckpoint& tiny) { tiny.tensors[name] = zeros(name, dtype, shape); };
}

std::function<void(TinyCheckpoint&)> without(const std::string& name) {
  return [=](TinyCheckpoint& tiny) {
    if (tiny.tensors.erase(name) != 1) throw std::runtime_error("no tensor " + name);
  };
}

/// Writes `bits` of `bytes` bytes as element `at` of a tensor.
std::function<void(TinyCheckpoint&)> element(const std::string& name, std::size_t at,
                                             std::uint32_t bits, std::size_t bytes) {
  return [=](TinyCheckpoint& tiny) {
    std::memcpy(tiny.tensors.at(name).bytes.data() + at * bytes, &bits, bytes);
  };
}

std::string nested(const std::string& open, const std::string& close, int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i)
    text += open;
  for (int i = 0; i < depth; ++i)
    text += close;
  return text;
}

constexpr int kDeep = 100'000;
const std::string kNormShape = R"("norm.weight":{"dtype":"BF16","shape":)";
const std::string kNorm = kNormShape + R"([32],"data_offsets":[)";

std::vector<Damage> cut_shards() {
  std::vector<Damage> all;
  const std::pair<const char*, std::uintmax_t> lengths[] = {{"cut_to_nothing", 0},
                                                            {"cut_in_the_length", 7},
                                                            {"cut_after_the_length", 8},
                                                            {"cut_in_the_header", 100}};
  for (const auto& [name, bytes] : lengths) {
    all.push_back({name,
                   Noticed::headers,
                   {},
                   cut_to(kFirst, bytes),
                   {kFirst, bytes < 8 ? "at least 8" : "header length is", "fetch it again"}});
  }
  all.push_back({"cut_in_the_data",
                 Noticed::headers,
                 {},
                 [](Folder folder) {
                   const std::string path = folder + "/" + kFirst;
                   fs::resize_file(path, fs::file_size(path) - 1000);
                 },
                 {kFirst, "tensor '", "data_offsets are bytes", "but the file holds"}});
  all.push_back({"cut_by_one_byte",
                 Noticed::headers,
                 {},
                 [](Folder folder) {
                   const std::string path = folder + "/" + kSecond;
                   fs::resize_file(path, fs::file_size(path) - 1);
                 },
                 {kSecond, "tensor '", "but the file holds"}});
  all.push_back({"bytes_after_the_end",
                 Noticed::headers,
                 {},
                 [](Folder folder) {
                   const std::string path = folder + "/" + kSecond;
                   write_file(path, read_file(path) + "more");
                 },
                 {kSecond, "belong to no tensor", "expected no gap"}});
  return all;
}

std::vector<Damage> hostile_headers() {
  std::vector<Damage> all;
  const std::pair<const char*, std::uint64_t> lengths[] = {
      {"length_2_63", std::uint64_t{1} << 63U},
      {"length_2_60", std::uint64_t{1} << 60U},
      {"length_all_ones", ~std::uint64_t{0}},
      {"length_of_a_petabyte", 1'000'000'000'000'000}};
  for (const auto& [name, length] : lengths) {
    all.push_back({name,
                   Noticed::headers,
                   {},
                   header_length(length),
                   {kFirst, "header length is " + std::to_string(length), "bytes follow"}});
  }
  all.push_back({"length_0",
                 Noticed::headers,
                 {},
                 header_length(0),
                 {kFirst, "header is no valid JSON", "expected one object"}});
  all.push_back({"length_too_short",
                 Noticed::headers,
                 {},
                 header_length(50),
                 {kFirst, "header is no valid JSON"}});
  all.push_back({"length_into_the_data",
                 Noticed::headers,
                 {},
                 header_length(100'000),
                 {kFirst, "header is no valid JSON"}});
  all.push_back({"lfs_pointer",
                 Noticed::headers,
                 {},
                 replace(kFirst, "version https://git-lfs.github.com/spec/v1\noid sha256:00\n"),
                 {kFirst, "header length is", "Git LFS"}});
  const auto header = [&](const char* name, const std::string& text,
                          std::vector<std::string> parts) {
    parts.push_back(kFirst);
    all.push_back({name,
                   Noticed::headers,
                   {},
                   replace(kFirst, safetensors_bytes(text, "")),
                   std::move(parts)});
  };
  header("header_not_json", "hello", {"header is no valid JSON at byte", "expected one object"});
  header("header_a_list", "[1]", {"header", "is an array", "expected a JSON object"});
  header("header_null", "null", {"header", "is null", "expected a JSON object"});
  header("header_deep_lists", nested("[", "]", kDeep), {"header", "expected"});
  header("header_deep_objects", nested("{\"a\":", "}", kDeep), {"header is no valid JSON"});
  header("header_deep_metadata", "{\"__metadata__\":" + nested("[", "]", kDeep) + "}",
         {"is missing, but", "fetch the shard again"});
  header("header_nul_byte", std::string("{\"a\0\":1}", 8), {"header is no valid JSON"});
  header("header_bad_utf8", "{\"\xC3\x28\":{}}", {"header is no valid JSON"});
  header("header_lone_surrogate", R"({"\ud800":{}})", {"header is no valid JSON"});
  header("header_two_objects", "{}{}", {"header is no valid JSON"});
  header("header_nan", R"({"a":{"dtype":"U8","shape":[NaN],"data_offsets":[0,1]}})",
         {"header is no valid JSON"});
  return all;
}

std::vector<Damage> wrong_offsets() {
  const auto second = [](const char* name, const std::string& from, const std::string& to,
                         std::vector<std::string> parts) {
    parts.push_back(kSecond);
    return Damage{name, Noticed::headers, {}, edit_header(kSecond, from, to), std::move(parts)};
  };
  const std::string who = "tensor 'norm.weight'";
  return {
      second("offsets_overlap", kNorm, kNorm + "0,64],\"x\":[", {who, "overlap", "no overlap"}),
      second("offsets_2_63", kNorm, kNorm + "9223372036854775808,9223372036854775872],\"x\":[",
             {who, "data_offsets contains number 9223372036854775808", "2^63 - 1"}),
      second("offsets_negative", kNorm, kNorm + "-64,0],\"x\":[",
             {who, "data_offsets contains number -64", "expected integers"}),
      second("offsets_fractional", kNorm, kNorm + "0.5,64.5],\"x\":[",
             {who, "data_offsets contains number 0.5"}),
      second("offsets_float", kNorm, kNorm + "0.0,64.0],\"x\":[",
             {who, "data_offsets contains number 0.0"}),
      second("offsets_exponent", kNorm, kNorm + "0,1e30],\"x\":[",
             {who, "data_offsets contains number 1e30"}),
      second("offsets_text", kNorm, kNorm + "\"0\",\"64\"],\"x\":[",
             {who, "data_offsets contains text '0'"}),
      second("offsets_null", kNorm, kNorm + "null,64],\"x\":[",
             {who, "data_offsets contains null"}),
      second("offsets_beyond_the_file", kNorm, kNorm + "1000000000,1000000064],\"x\":[",
             {who, "bytes 1000000000 to 1000000064", "but the file holds"}),
      second("offsets_reversed", kNorm, kNorm + "64,0],\"x\":[", {who, "bytes 64 to 0"}),
      second("offsets_one_number", kNorm, kNorm + "0],\"x\":[", {who, "1 numbers, expected 2"}),
      second("offsets_twice", kNorm, kNorm + "0,64],\"data_offsets\":[",
             {who, "'data_offsets' occurs twice"}),
      second("shape_2_60", kNormShape + "[32]", kNormShape + "[1152921504606846976]",
             {who, "needs 2305843009213693952 bytes"}),
      second("shape_overflows", kNormShape + "[32]", kNormShape + "[4294967296,4294967296]",
             {who, "overflows 63 bits"}),
      second("tensor_twice", "\"norm.weight\":", "\"layers.3.attn_norm.weight\":",
             {"tensor 'layers.3.attn_norm.weight'", "occurs twice", "expected once"}),
      second("tensor_a_number", "{\"__metadata__\"", "{\"norm.weights\":5,\"__metadata__\"",
             {"tensor 'norm.weights'", "is number 5", "expected an object"}),
      second("dtype_unknown", "\"dtype\":\"BF16\"", "\"dtype\":\"BF61\"",
             {"dtype is 'BF61'", "expected one of F32 BF16"}),
      Damage{"gap_between_tensors",
             Noticed::headers,
             {},
             [](Folder folder) {
               write_file(folder + "/" + kSecond,
                          safetensors_bytes(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":)"
                                            R"([0,1]},"b":{"dtype":"U8","shape":[1],)"
                                            R"("data_offsets":[2,3]}})",
                                            "abc"));
             },
             {kSecond, "belong to no tensor", "expected no gap"}},
  };
}

std::vector<Damage> wrong_indexes() {
  std::vector<Damage> all;
  const auto index = [&](const char* name, const std::function<void(Folder)>& destroy,
                         std::vector<std::string> parts) {
    parts.emplace_back(kTinyIndex);
    all.push_back({name, Noticed::headers, {}, destroy, std::move(parts)});
  };
  const std::vector<std::string> outside = {"tensor 'norm.weight'",
                                            "expected a file inside the checkpoint folder"};
  index("index_parent_folder", placed_in("../x.safetensors"), outside);
  index("index_hidden_parent", placed_in("a/../../x.safetensors"), outside);
  index("index_absolute_path", placed_in("/etc/passwd"), outside);
  index("index_own_folder", placed_in("./" + kSecond), outside);
  index("index_double_slash", placed_in("a//b"), outside);
  index("index_nul_in_name", placed_in("a\\u0000b"), outside);
  index("index_empty_name", placed_in(""), outside);
  index("index_backslashes", placed_in("..\\\\x.safetensors"),
        {"shard is missing", "'norm.weight'", "fetch the whole checkpoint"});
  index("index_long_name", placed_in(std::string(5000, 'a')), outside);
  index("index_other_shard", placed_in(kFirst), {"tensor 'norm.weight'", "is missing, but"});
  index("index_number_as_name",
        edit(kTinyIndex, "\"norm.weight\":\"" + kSecond + "\"", "\"norm.weight\":5"),
        {"tensor 'norm.weight'", "expected a file name"});
  index("index_empty_file", replace(kTinyIndex, ""), {"no valid JSON"});
  index("index_not_json", replace(kTinyIndex, "hello"), {"no valid JSON at byte 1"});
  index("index_a_list", replace(kTinyIndex, "[]"), {"expected a JSON object with weight_map"});
  index("index_no_map", replace(kTinyIndex, R"({"metadata":{}})"), {"weight_map: is missing"});
  index("index_empty_map", replace(kTinyIndex, R"({"weight_map":{}})"), {"weight_map: is empty"});
  index("index_map_a_list", replace(kTinyIndex, R"({"weight_map":[]})"),
        {"weight_map: expected an object"});
  index("index_map_null", replace(kTinyIndex, R"({"weight_map":null})"),
        {"weight_map: expected an object"});
  index("index_deep", replace(kTinyIndex, "{\"x\":" + nested("[", "]", kDeep) + "}"),
        {"x: is nested deeper than 64 levels"});
  index(
      "index_tensor_twice",
      edit(kTinyIndex, "\"norm.weight\":", "\"norm.weight\":\"" + kSecond + "\",\"norm.weight\":"),
      {"weight_map.norm.weight: stands twice in one object, expected once",
       "fetch the checkpoint"});
  index("index_map_twice", edit(kTinyIndex, "{", R"({"weight_map":{},)"),
        {"weight_map: stands twice in one object, expected once"});
  index("index_lacks_a_tensor", edit(kTinyIndex, ",\"norm.weight\":\"" + kSecond + "\"", ""),
        {"tensor 'norm.weight'", "is here, but"});
  index(
      "index_names_a_stranger",
      edit(kTinyIndex, "\"norm.weight\":", "\"norn.weight\":\"" + kSecond + "\",\"norm.weight\":"),
      {"tensor 'norn.weight'", "is missing, but"});
  index("tensor_in_two_shards",
        [](Folder folder) {
          write_file(folder + "/third.safetensors",
                     safetensors_bytes({zeros("norm.weight", "BF16", {32})}));
          edit(kTinyIndex, "\"norm.weight\":",
               "\"norm.weight\":\"third.safetensors\",\"norm.weight\":")(folder);
        },
        {"weight_map.norm.weight: stands twice in one object, expected once"});
  index("index_a_folder", instead(kTinyIndex, make_folder), {"is a folder", "a regular file"});
  index("index_a_pipe", instead(kTinyIndex, make_pipe), {"is a pipe", "a regular file"});
  index("index_a_device", instead(kTinyIndex, make_device), {"device", "a regular file"});
  return all;
}

std::vector<Damage> special_files() {
  std::vector<Damage> all;
  const auto shard = [&](const char* name, void (*make)(const char*),
                         std::vector<std::string> parts) {
    parts.push_back(kFirst);
    all.push_back({name, Noticed::headers, {}, instead(kFirst, make), std::move(parts)});
  };
  shard("shard_a_folder", make_folder, {"is a folder", "expected a regular file"});
  shard("shard_a_pipe", make_pipe, {"is a pipe, socket or device", "expected a regular file"});
  shard("shard_a_socket", make_socket, {"cannot be opened"});
  shard("shard_a_device", make_device, {"is a pipe, socket or device"});
  shard("shard_a_dangling_link", make_dangling, {"shard is missing", "fetch the whole checkpoint"});
  shard("shard_a_link_to_itself", make_loop, {"cannot be opened"});
  shard("shard_missing", [](const char*) {}, {"shard is missing", "tensors such as '"});
  all.push_back({"folder_empty",
                 Noticed::config,
                 {},
                 [](Folder folder) {
                   for (const auto& entry : fs::directory_iterator(folder))
                     fs::remove_all(entry.path());
                 },
                 {"config.json", "cannot be opened"}});
  all.push_back({"no_weights_at_all",
                 Noticed::headers,
                 {},
                 [](Folder folder) {
                   fs::remove(folder + "/" + kTinyIndex);
                   for (const std::string& name : {kFirst, kSecond})
                     fs::remove(folder + "/" + name);
                 },
                 {"has neither", "model.safetensors", "fetch it again"}});
  all.push_back({"a_file_for_the_folder",
                 Noticed::config,
                 {},
                 [](Folder folder) {
                   fs::remove_all(folder);
                   write_file(folder, "text");
                 },
                 {"config.json", "cannot be opened"}});
  all.push_back({"shard_is_text",
                 Noticed::headers,
                 {},
                 [](Folder folder) {
                   fs::remove(folder + "/" + kFirst);
                   fs::create_symlink("/etc/passwd", folder + "/" + kFirst);
                 },
                 {kFirst, "header length is", "no safetensors file"}});
  return all;
}

std::vector<Damage> wrong_tensors() {
  std::vector<Damage> all;
  const auto tensor = [&](const char* name, const std::function<void(TinyCheckpoint&)>& change,
                          std::vector<std::string> parts) {
    all.push_back({name, Noticed::inventory, change, {}, std::move(parts)});
  };
  tensor("missing_norm", without("norm.weight"), {"'norm.weight'", "is missing"});
  tensor("missing_expert", without("layers.3.ffn.experts.1.w2.weight"),
         {"'layers.3.ffn.experts.1.w2.weight'", "is missing"});
  tensor("missing_scale", without("layers.1.attn.wq_a.scale"),
         {"'layers.1.attn.wq_a.scale'", "is missing"});
  tensor("missing_expert_scale", without("layers.0.ffn.experts.0.w1.scale"),
         {"'layers.0.ffn.experts.0.w1.scale'", "is missing"});
  tensor("missing_engram_scale", without("layers.1.engram.embed.scale"),
         {"'layers.1.engram.embed.scale'", "is missing"});
  tensor("scale_of_wrong_shape", shaped("layers.1.attn.wq_b.scale", "F8_E8M0", {2, 2}),
         {"'layers.1.attn.wq_b.scale': is F8_E8M0 [2, 2], expected F8_E8M0 [2, 1]"});
  tensor("scale_of_wrong_dtype", shaped("layers.1.attn.wq_b.scale", "F32", {2, 1}),
         {"'layers.1.attn.wq_b.scale': is F32 [2, 1], expected F8_E8M0 [2, 1]"});
  tensor("norm_of_wrong_shape", shaped("norm.weight", "BF16", {31}),
         {"'norm.weight': is BF16 [31], expected BF16 or F32 [32]"});
  tensor("norm_of_wrong_dtype", shaped("norm.weight", "I32", {32}),
         {"'norm.weight': is I32 [32], expected BF16 or F32 [32]"});
  tensor("norm_with_a_dimension_more", shaped("norm.weight", "BF16", {1, 32}),
         {"'norm.weight': is BF16 [1, 32], expected"});
  tensor("norm_without_dimension", shaped("norm.weight", "BF16", {}),
         {"'norm.weight': is BF16 [], expected"});
  tensor("norm_empty", shaped("norm.weight", "BF16", {0}),
         {"'norm.weight': is BF16 [0], expected"});
  tensor("matrix_transposed", shaped("layers.0.attn.wq_b.weight", "BF16", {32, 64}),
         {"'layers.0.attn.wq_b.weight': is BF16 [32, 64], expected", "[64, 32]"});
  tensor("matrix_of_integers", shaped("layers.0.attn.wkv.weight", "I64", {32, 32}),
         {"'layers.0.attn.wkv.weight': is I64 [32, 32], expected"});
  tensor("embedding_too_short", shaped("embed.weight", "BF16", {4000, 32}),
         {"'embed.weight': is BF16 [4000, 32], expected", "[4096, 32]"});
  return all;
}

std::vector<Damage> wrong_values() {
  std::vector<Damage> all;
  const auto value = [&](const char* name, const std::string& where, std::size_t at,
                         std::uint32_t bits, std::size_t bytes) {
    all.push_back({name,
                   Noticed::values,
                   element(where, at, bits, bytes),
                   {},
                   {"'" + where + "'", "element " + std::to_string(at), "NaN or infinite",
                    "expected finite numbers", ".safetensors", "fetch it again"}});
  };
  value("nan_in_bf16", "norm.weight", 3, 0x7FC0, 2);
  value("infinity_in_bf16", "layers.0.attn_norm.weight", 31, 0x7F80, 2);
  value("minus_infinity_in_bf16", "embed.weight", 131071, 0xFF80, 2);
  value("nan_in_bf16_matrix", "head.weight", 77, 0xFFFF, 2);
  value("nan_in_f32", "layers.2.attn.attn_sink", 1, 0x7F800001U, 4);
  value("infinity_in_f32", "layers.2.ffn.gate.bias", 0, 0xFF800000U, 4);
  value("nan_in_f32_matrix", "layers.1.hc_attn_fn", 5, 0x7FFFFFFFU, 4);
  value("nan_in_fp8", "layers.3.attn.wkv.weight", 9, 0x7F, 1);
  value("minus_nan_in_fp8", "layers.3.attn.wo_b.weight", 0, 0xFF, 1);
  value("nan_in_fp8_scale", "layers.3.attn.wo_b.scale", 0, 0xFF, 1);
  value("nan_in_fp4_scale", "layers.2.ffn.experts.1.w3.scale", 17, 0xFF, 1);
  value("nan_in_engram", "layers.1.engram.embed.weight", 3000, 0x7F, 1);
  const auto scale = [&](const char* name, const std::string& where, std::uint32_t code,
                         const std::string& found) {
    all.push_back({name,
                   Noticed::values,
                   element(where, 0, code, 1),
                   {},
                   {"'" + where + "'", "element 0 of F8_E8M0", found, "weights are finite",
                    ".safetensors", "fetch it again"}});
  };
  scale("infinite_fp8_by_scale", "layers.3.attn.wo_b.scale", 0xFE,
        "is 2^127, expected at most 2^119");
  scale("just_infinite_fp8", "layers.1.attn.wq_a.scale", 247, "is 2^120, expected at most 2^119");
  scale("just_infinite_fp4", "layers.2.ffn.experts.1.w3.scale", 253,
        "is 2^126, expected at most 2^125");
  scale("infinite_engram_by_scale", "layers.1.engram.embed.scale", 0xFE, "is 2^127");
  return all;
}

} // namespace

std::vector<Damage> damaged_weights() {
  std::vector<Damage> all;
  for (const auto& kinds : {cut_shards(), hostile_headers(), wrong_offsets(), wrong_indexes(),
                            special_files(), wrong_tensors(), wrong_values()})
    all.insert(all.end(), kinds.begin(), kinds.end());
  return all;
}

std::vector<Damage> all_damages() {
  std::vector<Damage> all;
  for (const auto& kinds : {damaged_weights(), damaged_configs(), damaged_texts()})
    all.insert(all.end(), kinds.begin(), kinds.end());
  return all;
}

} // namespace troupe::test
