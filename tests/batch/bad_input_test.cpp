// Goal: through the executable, whatever is wrong with a model, a batch file, a configuration or a
// journal ends with one message, the exit code of its kind, in bounded time, with nothing half
// written.
// Method: the tables of damages and of bad lines; the built program in a folder of its own.

#include "tests/actors/app/temporary_folder.hpp"
#include "tests/support/bad_requests.hpp"
#include "tests/support/damaged_checkpoints.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <sys/wait.h>

namespace troupe::app {
namespace {

using Json = nlohmann::json;
using test::BadRequest;
using test::Damage;
using test::Noticed;
using test::TinyCheckpoint;

constexpr int kExitFailed = 1;
constexpr int kExitRefused = 2;
constexpr int kExitPartial = 3;

const std::string kNano = TROUPE_SOURCE_DIR "/examples/models/nano-v4.1";
const std::string kLine = R"({"custom_id":"a","method":"POST","url":"/v1/chat/completions",)"
                          R"("body":{"max_tokens":1,"messages":[{"role":"user","content":"x"}]}})"
                          "\n";

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

class Program : public testing::Test {
protected:
  /// Runs `troupe ARGUMENTS` for at most 60 s and 8 GiB; file names are relative to the folder.
  Outcome run(const std::string& arguments, const std::string& input = "") {
    folder_.write("stdin", input);
    const std::string command = "cd '" + folder_.path("") +
                                "' && timeout 60 '" TROUPE_EXECUTABLE "' " + arguments +
                                " <stdin >stdout 2>stderr";
    const int state = std::system(command.c_str());
    return {WIFEXITED(state) ? WEXITSTATUS(state) : -1, folder_.read("stdout"),
            folder_.read("stderr")};
  }

  TemporaryFolder folder_;
};

/// The one line that a refusal writes.
std::string only_message(const Outcome& outcome) {
  const auto lines = lines_of(outcome.err);
  EXPECT_EQ(lines.size(), 1U) << outcome.err;
  EXPECT_EQ(outcome.err.rfind("troupe: ", 0), 0U) << outcome.err;
  return lines.empty() ? "" : lines[0];
}

// -- checkpoints ----------------------------------------------------------------------------------

class EveryDamage : public Program, public testing::WithParamInterface<Damage> {
protected:
  void SetUp() override {
    static const TinyCheckpoint sound;
    TinyCheckpoint tiny = sound;
    if (GetParam().change) GetParam().change(tiny);
    tiny.write(folder_.path("model"));
    if (GetParam().destroy) GetParam().destroy(folder_.path("model"));
    folder_.write("in.jsonl", kLine);
  }

  void expect_refused(const std::string& arguments, int exit_code) {
    SCOPED_TRACE(arguments);
    const Outcome outcome = run(arguments, "{\"text\": \"x\"}\n");
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    const std::string message = only_message(outcome);
    for (const std::string& part : GetParam().parts)
      EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
    for (const char* name : {"out.jsonl", "out.errors.jsonl"})
      EXPECT_EQ(folder_.read(name), "") << name;
    for (const char* name : {"out.jsonl", "out.errors.jsonl", "out.jsonl.journal"})
      EXPECT_FALSE(folder_.has(name)) << name;
  }
};

const std::string kGenerate = "generate --model model --quiet --max-tokens 1 x";
const std::string kBatch = "batch --model model --quiet --input in.jsonl --output out.jsonl";

TEST_P(EveryDamage, EndsEveryCommandThatNeedsIt) {
  const Noticed noticed = GetParam().noticed;
  const bool is_early = noticed == Noticed::config || noticed == Noticed::headers;
  if (is_early) {
    expect_refused("inspect model", kExitFailed);
    expect_refused(kBatch, kExitFailed);
    expect_refused(kBatch + " --check", kExitRefused);
    return;
  }
  if (GetParam().name.ends_with("_a_pipe")) {
    expect_refused("inspect model", kExitFailed); // Its digest covers these files.
  } else {
    const Outcome inspected = run("inspect model");
    EXPECT_EQ(inspected.exit_code, noticed == Noticed::inventory ? kExitPartial : 0);
    EXPECT_EQ(inspected.err, "");
  }
  if (noticed == Noticed::values) {
    expect_refused(kGenerate, kExitFailed);
    expect_refused(kBatch, kExitFailed);
  } else if (noticed == Noticed::tokenizer) {
    expect_refused("tokenize --model model", kExitFailed);
    expect_refused(kBatch, kExitFailed);
  } else if (noticed == Noticed::encoding) {
    expect_refused("tokenize --chat --model model", kExitFailed);
    expect_refused(kGenerate, kExitFailed);
  } else {
    const Outcome refused = run(kBatch);
    EXPECT_EQ(refused.exit_code, kExitFailed) << refused.err;
    EXPECT_NE(only_message(refused).find("troupe inspect"), std::string::npos) << refused.err;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryDamage, testing::ValuesIn(test::all_damages()),
                         [](const auto& tested) { return tested.param.name; });

TEST_F(Program, TheUndamagedCheckpointAnswers) {
  TinyCheckpoint().write(folder_.path("model"));
  folder_.write("in.jsonl", kLine);
  EXPECT_EQ(run("inspect model").exit_code, 0);
  const Outcome answered = run(kGenerate);
  EXPECT_EQ(answered.exit_code, 0) << answered.err;
  EXPECT_EQ(run(kBatch).exit_code, 0);
  EXPECT_EQ(lines_of(folder_.read("out.jsonl")).size(), 1U);
}

TEST_F(Program, ATokenizerOfALargerModelIsRefused) {
  TinyCheckpoint tiny;
  auto json = nlohmann::ordered_json::parse(tiny.files.at("tokenizer.json"));
  json["added_tokens"].push_back({{"id", 4096}, {"content", "<new>"}, {"special", true}});
  tiny.files["tokenizer.json"] = json.dump();
  tiny.write(folder_.path("model"));
  const Outcome refused = run(kGenerate);
  EXPECT_EQ(refused.exit_code, kExitFailed);
  const std::string message = only_message(refused);
  EXPECT_NE(message.find("tokenizer.json: found ids up to 4096"), std::string::npos) << message;
  EXPECT_NE(message.find("vocab_size = 4096"), std::string::npos) << message;
}

TEST_F(Program, AFolderThatIsNotThereIsAWrongArgument) {
  folder_.write("in.jsonl", kLine);
  for (const std::string& arguments :
       {std::string("generate --model nowhere x"), std::string("tokenize --model nowhere"),
        std::string("batch --model nowhere --input in.jsonl --output out.jsonl")}) {
    const Outcome refused = run(arguments);
    EXPECT_EQ(refused.exit_code, kExitRefused) << arguments;
    EXPECT_NE(only_message(refused).find("nowhere"), std::string::npos);
  }
}

TEST_F(Program, AnExpressionThatExplodesRefusesTheTextAlone) {
  TinyCheckpoint tiny;
  auto json = nlohmann::ordered_json::parse(tiny.files.at("tokenizer.json"));
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"Regex", "(x+x+)+[yz]"}};
  tiny.files["tokenizer.json"] = json.dump();
  tiny.write(folder_.path("model"));
  const std::string hostile = "{\"text\": \"" + std::string(5000, 'x') + "\"}\n";
  const Outcome outcome =
      run("tokenize --model model", "{\"text\": \"a\"}\n" + hostile + "{\"text\": \"b\"}\n");
  EXPECT_EQ(outcome.exit_code, kExitPartial) << outcome.err;
  const auto lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_NE(lines[0].find("ids"), std::string::npos);
  EXPECT_NE(lines[1].find("match limit"), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find("ids"), std::string::npos);
}

// -- batch lines ----------------------------------------------------------------------------------

std::string all_bad_lines() {
  std::string text;
  for (const BadRequest& bad : test::bad_requests())
    text += bad.line + "\n";
  return text;
}

void expect_finding(const BadRequest& bad, const Json& code, const Json& param,
                    const Json& message) {
  EXPECT_EQ(code, bad.code) << bad.name << ": " << message;
  EXPECT_EQ(param, bad.param.empty() ? Json() : Json(bad.param)) << bad.name;
  for (const std::string& part : bad.parts)
    EXPECT_NE(message.get<std::string>().find(part), std::string::npos) << part << " " << message;
}

TEST_F(Program, CheckNamesEveryBadLine) {
  folder_.write("in.jsonl", all_bad_lines());
  const Outcome outcome = run("batch --check --json --quiet --input in.jsonl --model " + kNano);
  EXPECT_EQ(outcome.exit_code, kExitPartial) << outcome.err;
  const auto lines = lines_of(outcome.out);
  const auto bad = test::bad_requests();
  ASSERT_EQ(lines.size(), bad.size());
  for (std::size_t i = 0; i < bad.size(); ++i) {
    const Json found = Json::parse(lines[i]);
    EXPECT_EQ(found["line"], i + 1);
    EXPECT_EQ(found["custom_id"], bad[i].has_custom_id ? Json(bad[i].name) : Json());
    expect_finding(bad[i], found["code"], found["param"], found["message"]);
  }
}

TEST_F(Program, ARunAnswersEveryBadLineOnceAndTheGoodOnesToo) {
  folder_.write("in.jsonl", kLine + all_bad_lines());
  const Outcome outcome = run("batch --quiet --input in.jsonl --output out.jsonl --model " + kNano +
                              " --set rank.prefill.device=null --set rank.decode.device=null");
  EXPECT_EQ(outcome.exit_code, kExitPartial) << outcome.err;
  EXPECT_EQ(lines_of(folder_.read("out.jsonl")).size(), 1U) << "the good line";
  const auto bad = test::bad_requests();
  std::map<std::string, Json> by_name;
  std::map<std::int64_t, Json> by_line;
  for (const std::string& text : lines_of(folder_.read("out.errors.jsonl"))) {
    const Json line = Json::parse(text);
    if (line.contains("line")) {
      EXPECT_TRUE(by_line.emplace(line["line"], line).second) << text;
    } else {
      EXPECT_TRUE(by_name.emplace(line["custom_id"], line).second) << text;
    }
  }
  ASSERT_EQ(by_name.size() + by_line.size(), bad.size());
  for (std::size_t i = 0; i < bad.size(); ++i) {
    if (!bad[i].is_readable) {
      const Json& line = by_line.at(static_cast<std::int64_t>(i) + 2);
      EXPECT_TRUE(line["response"].is_null());
      EXPECT_EQ(line["custom_id"], bad[i].has_custom_id ? Json(bad[i].name) : Json());
      expect_finding(bad[i], line["error"]["code"], Json(), line["error"]["message"]);
      continue;
    }
    const Json& response = by_name.at(bad[i].name)["response"];
    EXPECT_EQ(response["status_code"], 400);
    const Json& error = response["body"]["error"];
    EXPECT_EQ(error["type"], "invalid_request_error");
    expect_finding(bad[i], error["code"], error["param"], error["message"]);
  }
}

// -- configurations and journals ------------------------------------------------------------------

TEST_F(Program, ConfigurationsThatContradictTheModelAreRefused) {
  folder_.write("in.jsonl", kLine);
  const std::string batch =
      "batch --quiet --input in.jsonl --output out.jsonl --model " + kNano + " ";
  const std::pair<std::string, std::vector<std::string>> cases[] = {
      {"--set kv.memory=64KiB", {"kv.memory is 65536 bytes", "raise kv.memory"}},
      {"--set kv.block_tokens=3", {"block_tokens"}},
      {"--set model.context_max=1000000", {"model.context_max", "16384"}},
      {"--set rank.decode.role=prefill", {"no rank can decode", "add a [[rank]]"}},
      {"--set kv.memry=1", {"--set: kv.memry: unknown key", "\"memory\""}},
      {"--config absent.toml", {"absent.toml: cannot be opened", "expected a file"}},
      {"--config .", {".: is a folder, expected a regular file"}},
      {"--policies absent.toml", {"absent.toml: cannot be opened"}}};
  for (const auto& [flags, parts] : cases) {
    SCOPED_TRACE(flags);
    const Outcome refused = run(batch + flags);
    EXPECT_EQ(refused.exit_code, kExitRefused) << refused.err;
    const std::string message = only_message(refused);
    for (const std::string& part : parts)
      EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
    EXPECT_FALSE(folder_.has("out.jsonl"));
  }
}

TEST_F(Program, ADamagedJournalIsRefusedAndKept) {
  folder_.write("in.jsonl", kLine);
  const std::string batch = "batch --quiet --input in.jsonl --output out.jsonl --model " + kNano +
                            " --set rank.prefill.device=null --set rank.decode.device=null";
  ASSERT_EQ(run(batch).exit_code, 0);
  const std::string sound = folder_.read("out.jsonl.journal");
  const std::string output = folder_.read("out.jsonl");
  for (const std::string& bytes :
       {sound.substr(0, sound.size() / 2), std::string("text"),
        sound.substr(0, 60) + std::string("\0\0\0\x09", 4) + sound.substr(64)}) {
    folder_.write("out.jsonl.journal", bytes);
    const Outcome refused = run(batch);
    EXPECT_EQ(refused.exit_code, kExitRefused);
    EXPECT_NE(only_message(refused).find("out.jsonl.journal: found"), std::string::npos);
    EXPECT_TRUE(folder_.read("out.jsonl.journal") == bytes);
    EXPECT_EQ(folder_.read("out.jsonl"), output);
  }
  folder_.write("out.jsonl.journal", sound);
  EXPECT_EQ(run(batch).exit_code, 0) << "already complete";
}

} // namespace
} // namespace troupe::app
