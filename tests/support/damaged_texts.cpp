// Damage to tokenizer.json and encoding.json.

#include "tests/support/damaged_checkpoints.hpp"

#include <sys/stat.h>

namespace troupe::test {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Folder = const std::string&;

/// The tokenizer's JSON, changed.
Damage tokenizer(const std::string& name, const std::function<void(Json&)>& change,
                 std::vector<std::string> parts) {
  parts.emplace_back("tokenizer.json: ");
  return {name,
          Noticed::tokenizer,
          [=](TinyCheckpoint& tiny) {
            Json json = Json::parse(tiny.files.at("tokenizer.json"));
            change(json);
            tiny.files["tokenizer.json"] = json.dump();
          },
          {},
          std::move(parts)};
}

Damage encoding(const std::string& name, const std::function<void(Json&)>& change,
                std::vector<std::string> parts) {
  parts.emplace_back("encoding.json: ");
  return {name,
          Noticed::encoding,
          [=](TinyCheckpoint& tiny) {
            Json json = Json::parse(tiny.files.at("encoding.json"));
            change(json);
            tiny.files["encoding.json"] = json.dump();
          },
          {},
          std::move(parts)};
}

Damage file(const std::string& name, Noticed noticed, const std::string& bytes,
            std::vector<std::string> parts) {
  const std::string path = noticed == Noticed::tokenizer ? "tokenizer.json" : "encoding.json";
  parts.push_back(path);
  return {name,
          noticed,
          {},
          [=](Folder folder) { write_file(folder + "/" + path, bytes); },
          std::move(parts)};
}

Damage pipe(const std::string& name, Noticed noticed) {
  const std::string path = noticed == Noticed::tokenizer ? "tokenizer.json" : "encoding.json";
  return {name,
          noticed,
          {},
          [=](Folder folder) {
            fs::remove(folder + "/" + path);
            ::mkfifo((folder + "/" + path).c_str(), 0600);
          },
          {path + ": is a pipe, socket or device, expected a regular file"}};
}

std::vector<Damage> tokenizer_models() {
  return {
      tokenizer("model_missing", [](Json& t) { t.erase("model"); }, {"model: missing, expected"}),
      tokenizer("model_a_list", [](Json& t) { t["model"] = Json::array(); },
                {"model: found an array, expected an object"}),
      tokenizer("model_unigram", [](Json& t) { t["model"]["type"] = "Unigram"; },
                {"model.type: found \"Unigram\", supported is \"BPE\""}),
      tokenizer("model_type_long",
                [](Json& t) { t["model"]["type"] = std::string(10'000, 'x') + "\n"; },
                {"model.type: found \"xxx", "...\" (10001 bytes), supported is"}),
      tokenizer("model_type_a_number", [](Json& t) { t["model"]["type"] = 3; },
                {"model.type: found a number"}),
      tokenizer("byte_fallback", [](Json& t) { t["model"]["byte_fallback"] = true; },
                {"model.byte_fallback: found true, supported is false"}),
      tokenizer("ignore_merges_text", [](Json& t) { t["model"]["ignore_merges"] = "yes"; },
                {"model.ignore_merges: found a string, expected a boolean"}),
      tokenizer("vocabulary_missing", [](Json& t) { t["model"].erase("vocab"); },
                {"model.vocab: missing"}),
      tokenizer("vocabulary_a_list",
                [](Json& t) {
                  t["model"]["vocab"] = {1, 2};
                },
                {"model.vocab: found an array, expected an object"}),
      tokenizer("vocabulary_empty", [](Json& t) { t["model"]["vocab"] = Json::object(); },
                {"model.vocab: byte 0 has no token", "needs all 256"}),
      tokenizer("vocabulary_without_a_byte", [](Json& t) { t["model"]["vocab"].erase("A"); },
                {"model.vocab: byte 65 has no token"}),
      tokenizer("id_negative", [](Json& t) { t["model"]["vocab"]["A"] = -1; },
                {"model.vocab[\"A\"]: found -1, expected a token id"}),
      tokenizer("id_fraction", [](Json& t) { t["model"]["vocab"]["A"] = 1.5; },
                {"model.vocab[\"A\"]: found 1.5"}),
      tokenizer("id_text", [](Json& t) { t["model"]["vocab"]["A"] = "1"; },
                {"model.vocab[\"A\"]: found a string"}),
      tokenizer("id_huge", [](Json& t) { t["model"]["vocab"]["A"] = 1LL << 62; },
                {"model.vocab[\"A\"]: found 4611686018427387904, expected a token id below"}),
      tokenizer("id_after_a_wide_gap", [](Json& t) { t["model"]["vocab"]["A"] = 16777215; },
                {"model.vocab: found id 16777215 among", "expected ids below"}),
      tokenizer("id_twice", [](Json& t) { t["model"]["vocab"]["A"] = t["model"]["vocab"]["B"]; },
                {"is used twice, expected once"}),
      tokenizer("merges_missing", [](Json& t) { t["model"].erase("merges"); },
                {"model.merges: missing"}),
      tokenizer("merges_an_object", [](Json& t) { t["model"]["merges"] = Json::object(); },
                {"model.merges: found an object"}),
      tokenizer("merge_of_one", [](Json& t) { t["model"]["merges"][0] = "ab"; },
                {"model.merges[0]: found \"ab\", expected two tokens"}),
      tokenizer("merge_of_three", [](Json& t) { t["model"]["merges"][1] = "a b c"; },
                {"model.merges[1]: found \"a b c\""}),
      tokenizer("merge_a_number", [](Json& t) { t["model"]["merges"][2] = 7; },
                {"model.merges[2]: found a number"}),
      tokenizer("merge_of_unknown_tokens",
                [](Json& t) { t["model"]["merges"][3] = "zqzqzq xqxqxq"; },
                {"model.merges[3]: a token of it or their join is missing in model.vocab"}),
      tokenizer("merge_of_no_bytes", [](Json& t) { t["model"]["merges"][4] = "\u4e2d \u4e2d"; },
                {"model.merges[4]", "spelled byte by byte"}),
  };
}

std::vector<Damage> tokenizer_parts() {
  const auto split = [](Json& t) -> Json& { return t["pre_tokenizer"]["pretokenizers"][0]; };
  return {
      tokenizer("normaliser",
                [](Json& t) {
                  t["normalizer"] = {{"type", "NFKC"}};
                },
                {"normalizer: found a normaliser, supported is null"}),
      tokenizer("splits_missing", [](Json& t) { t.erase("pre_tokenizer"); },
                {"pre_tokenizer: missing"}),
      tokenizer("splits_empty",
                [](Json& t) { t["pre_tokenizer"]["pretokenizers"] = Json::array(); },
                {"pre_tokenizer.pretokenizers[0]: missing"}),
      tokenizer("split_of_another_type", [=](Json& t) { split(t)["type"] = "Whitespace"; },
                {"pretokenizers[0].type: found \"Whitespace\""}),
      tokenizer("split_without_pattern", [=](Json& t) { split(t).erase("pattern"); },
                {"pretokenizers[0].pattern.Regex: missing"}),
      tokenizer("split_inverted", [=](Json& t) { split(t)["invert"] = 1; },
                {"pretokenizers[0].invert: found a number, expected a boolean"}),
      tokenizer("expression_does_not_compile",
                [=](Json& t) {
                  split(t)["pattern"] = {{"Regex", "(abc"}};
                },
                {"expression 0 of the pre-tokeniser", "at offset 4", "that compiles"}),
      tokenizer("expression_nested_too_deep",
                [=](Json& t) {
                  split(t)["pattern"] = {
                      {"Regex", std::string(2000, '(') + "a" + std::string(2000, ')')}};
                },
                {"expression 0 of the pre-tokeniser", "that compiles"}),
      tokenizer("expression_too_large",
                [=](Json& t) {
                  split(t)["pattern"] = {{"Regex", "((a{1,60000}){1,60000}){1,60000}"}};
                },
                {"expression 0 of the pre-tokeniser", "that compiles"}),
      tokenizer("expression_cuts_characters",
                [=](Json& t) {
                  split(t)["pattern"] = {{"Regex", "\\C+"}};
                },
                {"expression 0 of the pre-tokeniser", "that compiles"}),
      tokenizer("decoder_missing", [](Json& t) { t.erase("decoder"); },
                {"decoder.type: found another value or nothing"}),
      tokenizer("added_an_object", [](Json& t) { t["added_tokens"] = Json::object(); },
                {"added_tokens: found an object, expected an array"}),
      tokenizer("added_entry_a_text", [](Json& t) { t["added_tokens"][0] = "x"; },
                {"added_tokens[0]: found a string, expected an object"}),
      tokenizer("added_without_id", [](Json& t) { t["added_tokens"][0].erase("id"); },
                {"added_tokens[0].id: missing"}),
      tokenizer("added_without_text", [](Json& t) { t["added_tokens"][0]["content"] = ""; },
                {"added_tokens[0].content: missing"}),
      tokenizer("added_id_twice",
                [](Json& t) { t["added_tokens"][1]["id"] = t["added_tokens"][0]["id"]; },
                {"added_tokens[1]", "is there twice"}),
      tokenizer("added_id_of_another_token",
                [](Json& t) {
                  t["added_tokens"].push_back(
                      {{"id", t["model"]["vocab"]["A"]}, {"content", "<new>"}, {"special", true}});
                },
                {"added_tokens: id", "is another token of model.vocab"}),
      tokenizer("added_special_a_text", [](Json& t) { t["added_tokens"][0]["special"] = "yes"; },
                {"added_tokens[0].special: found a string, expected a boolean"}),
      tokenizer("added_single_word", [](Json& t) { t["added_tokens"][0]["single_word"] = true; },
                {"added_tokens[0].single_word: found true"}),
  };
}

/// A tokenizer that lacks a token of the chat format.
Damage marker(const std::string& name, const std::string& content) {
  return {name,
          Noticed::encoding,
          [=](TinyCheckpoint& tiny) {
            Json json = Json::parse(tiny.files.at("tokenizer.json"));
            Json kept = Json::array();
            for (const Json& token : json["added_tokens"]) {
              if (token["content"] != content) kept.push_back(token);
            }
            json["added_tokens"] = kept;
            tiny.files["tokenizer.json"] = json.dump();
          },
          {},
          {"tokenizer.json: added_tokens: \"" + content + "\" is missing", "encoding.json",
           "fetch both again"}};
}

std::vector<Damage> missing_markers() {
  return {marker("no_begin_marker", "<｜begin▁of▁sentence｜>"),
          marker("no_end_marker", "<｜end▁of▁sentence｜>"),
          marker("no_system_marker", "<｜System｜>"),
          marker("no_user_marker", "<｜User｜>"),
          marker("no_assistant_marker", "<｜Assistant｜>"),
          marker("no_reminder_marker", "<｜latest_reminder｜>"),
          marker("no_think_marker", "<think>"),
          marker("no_end_of_think_marker", "</think>"),
          marker("no_call_marker", "｜DSML｜")};
}

std::vector<Damage> text_files() {
  std::string deep;
  for (int i = 0; i < 100'000; ++i)
    deep += "{\"a\":";
  const Noticed tokens = Noticed::tokenizer;
  const Noticed chat = Noticed::encoding;
  return {
      file("tokenizer_empty", tokens, "", {"is no valid JSON"}),
      file("tokenizer_not_json", tokens, "hello", {"is no valid JSON", "line 1, column 1"}),
      file("tokenizer_a_list", tokens, "[]", {"found an array, expected an object"}),
      file("tokenizer_deep", tokens, deep, {"nested deeper than 128"}),
      file("tokenizer_bad_utf8", tokens, "{\"\xFF\": 1}", {"is no valid JSON"}),
      file("tokenizer_then_nul", tokens, std::string("{}\0 more", 8),
           {"is no valid JSON", "a zero byte"}),
      file("tokenizer_key_twice", tokens, R"({"model":{"vocab":{"a":1,"a":2}}})",
           {"model.vocab.a: stands twice", "expected once"}),
      pipe("tokenizer_a_pipe", tokens),
      {"tokenizer_missing",
       tokens,
       {},
       [](Folder folder) { fs::remove(folder + "/tokenizer.json"); },
       {"tokenizer.json: cannot be opened"}},
      file("encoding_empty", chat, "", {"is no valid JSON"}),
      file("encoding_a_list", chat, "[]", {"is an array, expected one object"}),
      file("encoding_deep", chat, deep, {"nested deeper than 128"}),
      file("encoding_key_twice", chat, R"({"dialect":"v4","dialect":"v4.1"})",
           {"`dialect` stands twice"}),
      pipe("encoding_a_pipe", chat),
      encoding("encoding_key_unknown", [](Json& e) { e["dialekt"] = "v4.1"; },
               {"unknown field `dialekt`", "nearest known field is `dialect`"}),
      encoding("encoding_key_missing", [](Json& e) { e.erase("tools_header"); },
               {"`tools_header`", "missing"}),
      encoding("encoding_key_mistyped", [](Json& e) { e["tools_footer"] = 5; },
               {"`tools_footer`", "a number", "a string"}),
      encoding("encoding_dialect_unknown", [](Json& e) { e["dialect"] = "v5"; },
               {"`dialect` is unknown, expected \"v4\" or \"v4.1\""}),
      encoding("encoding_line_without_number", [](Json& e) { e["effort_line"] = "x"; },
               {"`effort_line` lacks {n}"}),
      encoding("encoding_efforts_empty", [](Json& e) { e["effort_names"] = Json::object(); },
               {"`effort_names` is empty"}),
      encoding("encoding_effort_zero",
               [](Json& e) {
                 e["effort_names"] = {{"low", 0}};
               },
               {"`effort_names.low`", "0"}),
      encoding("encoding_default_huge", [](Json& e) { e["effort_default"] = 1000; },
               {"`effort_default`", "1000"}),
  };
}

} // namespace

std::vector<Damage> damaged_texts() {
  std::vector<Damage> all;
  for (const auto& kinds : {tokenizer_models(), tokenizer_parts(), missing_markers(), text_files()})
    all.insert(all.end(), kinds.begin(), kinds.end());
  return all;
}

} // namespace troupe::test
