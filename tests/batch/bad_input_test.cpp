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
    expect_refused(kGenerate, kExitFailed);
    expect_refused(kBatch, kExitFailed);
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
  EXPECT_NE(lines[1].find("steps of matching"), std::string::npos) << lines[1];
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
  folder_.write("roles.toml", "\n\n[[rank]]\nrole = \"decode\"\n");
  folder_.write("memory.toml", "[kv]\nmemory = \"64KiB\"\n");
  folder_.write("null.toml", "[kv]\nmemory = \"64KiB\"\n[limits]\nsequences_max = 4096\n"
                             "[[rank]]\ndevice = \"null\"\n");
  const std::string batch =
      "batch --quiet --input in.jsonl --output out.jsonl --model " + kNano + " ";
  const std::pair<std::string, std::vector<std::string>> cases[] = {
      {"--set kv.memory=64KiB",
       {"--set: kv.memory: found 65536 bytes, expected at least ", "raise kv.memory"}},
      {"--set kv.block_tokens=3",
       {"--set: kv.block_tokens: found 3, expected a positive multiple"}},
      {"--set model.context_max=1000000", {"--set: model.context_max: found 1000000", "16384"}},
      {"--set experts.slots=1", {"--set: experts.slots: found 1 slots for 16 experts"}},
      {"--set rank.decode.role=prefill",
       {"--set: rank.role: found only ranks of role \"prefill\"", "add a [[rank]]"}},
      {"--config roles.toml", {"roles.toml:3: rank.role: found only", "no rank can prefill"}},
      {"--config memory.toml", {"memory.toml:2: kv.memory: found 65536 bytes, expected at least"}},
      {"--config null.toml", {"null.toml:2: kv.memory: found 65536 bytes, expected at least"}},
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

// Whatever is repeated of what somebody wrote is bounded, and nothing of it reaches the terminal as
// a command.
TEST_F(Program, LongAndHostileNamesAreCut) {
  folder_.write("in.jsonl", kLine);
  const std::string longest = std::string(10'000, 'x') + "\\u001b[2J";
  folder_.write("rank.toml", "[[rank]]\nname = \"" + longest + "\"\n");
  folder_.write("key.toml", "[limits]\n\"" + longest + "\" = 1\n");
  folder_.write("table.toml", "[\"" + longest + "\"]\n");
  folder_.write("text.toml", "[limits]\nrequests_max = \"" + longest + "\"\n");
  folder_.write("set.toml", "name = \"" + longest + "\"\n");
  folder_.write("kind.toml", "name = \"n\"\n[\"" + longest + "\"]\n");
  folder_.write("policy.toml", "name = \"n\"\n[queue]\npolicy = \"" + longest + "\"\n");
  folder_.write("option.toml", "name = \"n\"\n[queue]\n\"" + longest + "\" = 1\n");
  folder_.write("sim.toml", "[[rank]]\nname = \"" + longest + "\"\nrol = 1\n");
  folder_.write("trace.jsonl", std::string(100'000, 'x') + "\n");
  folder_.write("workload.toml", "[workload]\ntrace = \"trace.jsonl\"\n");
  const std::string argument = std::string(10'000, 'x');
  const std::string model = " --model " + kNano + " --input in.jsonl --output out.jsonl";
  for (const std::string& command : {std::string("config check rank.toml"),
                                     std::string("config check key.toml"),
                                     std::string("config check table.toml"),
                                     std::string("config check text.toml"),
                                     std::string("config check set.toml"),
                                     std::string("policy check kind.toml"),
                                     std::string("policy check policy.toml"),
                                     std::string("policy check option.toml"),
                                     std::string("sim run sim.toml"),
                                     std::string("sim run workload.toml"),
                                     "sim run workload.toml --seeds " + argument,
                                     argument,
                                     "batch --" + argument,
                                     "batch" + model + " --order " + argument,
                                     "batch" + model + " --order=" + argument,
                                     "batch" + model + " --set " + argument,
                                     "batch" + model + " --set limits." + argument + "=1",
                                     "batch" + model + " --set rank." + argument + ".count=1",
                                     "batch" + model + " --set limits.requests_max=" + argument,
                                     "policy new " + argument + " --kind queue",
                                     "policy new x --kind " + argument}) {
    SCOPED_TRACE(command.substr(0, 60));
    const Outcome refused = run(command);
    EXPECT_EQ(refused.exit_code, kExitRefused) << refused.err.substr(0, 500);
    EXPECT_LE(refused.err.size(), 1000U) << refused.err.substr(0, 2000);
    EXPECT_EQ(refused.err.find('\x1b'), std::string::npos);
  }
}

// A file where the folder of a model is expected.
TEST_F(Program, AFileInPlaceOfTheModelIsNamed) {
  folder_.write("model", "text");
  folder_.write("in.jsonl", kLine);
  for (const std::string& arguments :
       {std::string("inspect model"), kBatch, kGenerate, std::string("tokenize --model model")}) {
    const Outcome refused = run(arguments);
    EXPECT_NE(refused.exit_code, 0) << arguments;
    const std::string message = only_message(refused);
    EXPECT_NE(message.find("model is a file, expected a folder; name the folder"),
              std::string::npos)
        << message;
  }
}

// The limit is met somewhere: while the model, the journal or the actors open what they need.
TEST_F(Program, TheLimitOfOpenFilesIsTold) {
  TinyCheckpoint().write(folder_.path("model"));
  folder_.write("in.jsonl", kLine);
  int told = 0;
  for (int limit = 4; limit < 20; ++limit) {
    SCOPED_TRACE(limit);
    const std::string command = "cd '" + folder_.path("") +
                                "' && exec >stdout 2>stderr && ulimit -n " + std::to_string(limit) +
                                " && exec timeout 60 '" TROUPE_EXECUTABLE "' " + kBatch;
    const int state = std::system(command.c_str());
    ASSERT_TRUE(WIFEXITED(state)) << folder_.read("stderr");
    if (WEXITSTATUS(state) == 0) break;
    if (WEXITSTATUS(state) == 127) continue; // Too few for the loader, with those of the test.
    EXPECT_EQ(WEXITSTATUS(state), kExitFailed) << folder_.read("stderr");
    const std::string message = folder_.read("stderr");
    told +=
        message.find("may have " + std::to_string(limit) + " open (ulimit -n)") != std::string::npos
            ? 1
            : 0;
    EXPECT_NE(message.find("ulimit -n"), std::string::npos) << message;
  }
  EXPECT_GE(told, 1);
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
