// Goal: the executable keeps its promises on words, flags, exit codes and where output goes.
// Method: the built program is run in a folder of its own; nothing else is needed than the bundled
// model.

#include "tests/actors/app/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <sys/wait.h>

namespace troupe::app {
namespace {

using Json = nlohmann::json;

const std::string kSource = TROUPE_SOURCE_DIR;
const std::string kModel = kSource + "/examples/models/nano-v4.1";

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

class CommandLine : public testing::Test {
protected:
  /// Runs `troupe ARGUMENTS` by a shell; file names in it are relative to the folder.
  Outcome run(const std::string& arguments, const std::string& input = "") {
    folder_.write("stdin", input);
    const std::string command = "cd '" + folder_.path("") + "' && '" TROUPE_EXECUTABLE "' " +
                                arguments + " <stdin >stdout 2>stderr";
    const int state = std::system(command.c_str());
    return {WIFEXITED(state) ? WEXITSTATUS(state) : -1, folder_.read("stdout"),
            folder_.read("stderr")};
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  TemporaryFolder folder_;
};

std::string completion_line(const std::string& id, const std::string& body) {
  return R"({"custom_id":")" + id + R"(","method":"POST","url":"/v1/completions","body":)" + body +
         "}\n";
}

// An unset variable of a shell gives an empty word.
TEST_F(CommandLine, AnEmptyValueIsNoDefault) {
  for (const char* flag : {"--config", "--policies", "--metrics", "--summary", "--errors"}) {
    const Outcome ended =
        run(std::string("batch --input in.jsonl --output out.jsonl ") + flag + " \"\"");
    EXPECT_EQ(ended.exit_code, 2) << flag << ended.err;
    EXPECT_TRUE(has(ended.err, std::string(flag) + ": the value is empty")) << ended.err;
  }
  for (const char* command : {"batch --input \"\" --output o",
                              "batch --input in.jsonl --output \"\"",
                              "batch --model \"\" --input in.jsonl --output o",
                              "generate --model \"\" x",
                              "inspect \"\"",
                              "tokenize --input \"\"",
                              "verify --model m \"\"",
                              "config check \"\"",
                              "config show \"\"",
                              "sim run \"\"",
                              "policy check \"\"",
                              "policy diff p.toml \"\"",
                              "policy test \"\"",
                              "policy show --connect \"\"",
                              "top --connect \"\"",
                              "ledger stats --ledger \"\"",
                              "explain a --ledger \"\"",
                              "replay \"\"",
                              "policy new x --kind queue --dir \"\"",
                              "explain \"\"",
                              "explain a --why-not \"\"",
                              "sim run s.toml --seeds \"\"",
                              "policy new \"\" --kind queue",
                              "policy new x --kind queue --lang \"\"",
                              "policy shadow queue \"\"",
                              "policy test x.so --policy \"\""}) {
    const Outcome ended = run(command);
    EXPECT_EQ(ended.exit_code, 2) << command << ended.err;
    EXPECT_TRUE(has(ended.err, ": the value is empty; give one")) << command << ended.err;
  }
}

TEST_F(CommandLine, HelpsWithWords) {
  const Outcome bare = run("");
  EXPECT_EQ(bare.exit_code, 0);
  EXPECT_TRUE(has(bare.out, "batch")) << bare.out;
  EXPECT_EQ(run("help").out, bare.out);
  EXPECT_EQ(run("--help").out, bare.out);
  const Outcome help = run("help batch");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_TRUE(has(help.out, "troupe batch [OPTIONS]")) << help.out;
  EXPECT_TRUE(has(help.out, "Example:"));
  EXPECT_EQ(run("batch --help").out, help.out);
  EXPECT_TRUE(has(run("help config show").out, "troupe config show"));
  EXPECT_TRUE(has(run("--version").out, "troupe "));
  for (const char* word : {"bach", "help bach"}) {
    const Outcome mistyped = run(word);
    EXPECT_EQ(mistyped.exit_code, 2);
    EXPECT_TRUE(has(mistyped.err, "did you mean \"batch\"?")) << mistyped.err;
    EXPECT_EQ(mistyped.out, "");
  }
  for (const char* word : {"help policy shwo", "policy shwo"}) {
    const Outcome mistyped = run(word);
    EXPECT_EQ(mistyped.exit_code, 2) << word;
    EXPECT_TRUE(has(mistyped.err, "shwo")) << mistyped.err;
  }
  EXPECT_TRUE(has(run("help policy shwo").err, "did you mean \"show\"?"));
  EXPECT_EQ(run("help bench engine").out, run("help bench").out) << "values are no commands";
  EXPECT_EQ(run("serve").exit_code, 2) << "what is not built does not exist";
}

TEST_F(CommandLine, RefusesBadFlags) {
  const Outcome misspelt = run("batch --inptu x");
  EXPECT_EQ(misspelt.exit_code, 2);
  EXPECT_TRUE(has(misspelt.err, "did you mean \"--input\"?")) << misspelt.err;
  EXPECT_TRUE(has(run("batch").err, "--input")) << "what is missing is named";
  EXPECT_EQ(run("batch --input stdin").exit_code, 2);
  EXPECT_EQ(run("batch --input stdin --output o --order up").exit_code, 2);
  EXPECT_EQ(run("batch --input stdin --output o --inflight-max 0").exit_code, 2);
  EXPECT_EQ(run("tokenize --plain --chat").exit_code, 2);
  EXPECT_EQ(run("config").exit_code, 2);
  for (const char* share : {"nan", "inf", "0", "2", "-0.5", "x"}) {
    const Outcome wrong = run(std::string("policy canary queue fcfs --share ") + share);
    EXPECT_EQ(wrong.exit_code, 2) << share << wrong.err;
    EXPECT_TRUE(has(wrong.err, "--share")) << wrong.err;
  }
}

TEST_F(CommandLine, ConfigCheckAndShow) {
  const std::string local = kSource + "/configs/local.toml";
  EXPECT_EQ(run("config check " + local).exit_code, 0);
  folder_.write("bad.toml", "[kv]\nmemori = 1\n");
  const Outcome bad = run("config check bad.toml");
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_EQ(bad.err, "troupe: bad.toml:2: kv.memori: unknown key; did you mean \"memory\"?\n");
  EXPECT_EQ(bad.out, "");
  const Json json = Json::parse(run("config check bad.toml --json").out);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["errors"][0]["line"], 2);
  const Outcome shown = run("config show " + local + " --set limits.inflight_max=7");
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_TRUE(has(shown.out, "inflight_max = 7\n"));
  folder_.write("shown.toml", shown.out);
  EXPECT_EQ(run("config show shown.toml").out, shown.out);
  folder_.write("p.toml", "name = \"x\"\n[queue]\npolicy = \"fcf\"\n");
  folder_.write("c.toml", "[policies]\nfile = \"p.toml\"\n");
  const Outcome policies = run("config check c.toml");
  EXPECT_EQ(policies.exit_code, 2);
  EXPECT_TRUE(has(policies.err, "p.toml:3: queue.policy")) << policies.err;
}

TEST_F(CommandLine, ConfigCheckKnowsAPolicyFile) {
  const std::string policies = kSource + "/configs/policies/";
  const Outcome good = run("config check " + policies + "default.toml");
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_TRUE(has(good.err, "valid, as a policy file")) << good.err;
  folder_.write("p.toml", "name = \"x\"\n[queue]\npolicy = \"fcf\"\n[step]\n");
  const Outcome bad = run("config check p.toml");
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_EQ(lines_of(bad.err).size(), 1U) << bad.err;
  EXPECT_TRUE(has(bad.err, "p.toml:3: queue.policy")) << bad.err;
  const Outcome shown = run("config show p.toml");
  EXPECT_EQ(shown.exit_code, 2);
  EXPECT_TRUE(has(shown.err, "this is a policy file, expected a system file")) << shown.err;
}

TEST_F(CommandLine, PolicyCheckShowsASetsNameAsMessagesDo) {
  folder_.write("p.toml", "name = \"a\\u202Eb\"\n");
  const Outcome checked = run("policy check p.toml");
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  EXPECT_TRUE(has(checked.out, "name = \"a\\u202eb\"")) << checked.out;
  EXPECT_EQ(checked.err, "troupe: p.toml: valid\n");
}

TEST_F(CommandLine, TokenizeGoesThereAndBack) {
  const std::string text = "{\"text\": \"Count <think> \xC3\xA4 \xF0\x9F\x98\x80\"}\n";
  const Outcome ids = run("tokenize --model " + kModel, text);
  EXPECT_EQ(ids.exit_code, 0) << ids.err;
  EXPECT_EQ(run("tokenize --decode --model " + kModel, ids.out).out, text);
  const Outcome plain = run("tokenize --plain --model " + kModel, text);
  EXPECT_NE(plain.out, ids.out) << "an added token is text";
  EXPECT_EQ(run("tokenize --decode --model " + kModel, plain.out).out, text);
  const Outcome bad = run("tokenize --model " + kModel, "\n{\"txt\": 1}\n  \n{\"text\": \"a\"}\n7");
  EXPECT_EQ(bad.exit_code, 3);
  ASSERT_EQ(lines_of(bad.out).size(), 3U) << "a blank line is no line";
  const std::string first = Json::parse(lines_of(bad.out)[0])["error"]["message"];
  const std::string last = Json::parse(lines_of(bad.out)[2])["error"]["message"];
  EXPECT_TRUE(first.starts_with("line 2: expected {\"text\"")) << first;
  EXPECT_TRUE(last.starts_with("line 5: the line is no JSON object")) << last;
  EXPECT_EQ(run("tokenize --decode --model " + kModel, "{\"ids\": [99999999]}").exit_code, 3);
  EXPECT_EQ(run("tokenize --model nowhere", "").exit_code, 2);
}

TEST_F(CommandLine, TokenizeRefusesAKeyThatStandsTwice) {
  const auto message = [&](const std::string& flags, const std::string& line) {
    const Outcome ended = run("tokenize " + flags + " --model " + kModel, "\n" + line + "\n");
    EXPECT_EQ(ended.exit_code, 3) << ended.err;
    return Json::parse(ended.out)["error"]["message"].get<std::string>();
  };
  const std::string twice = "` stands twice in one object, expected once; remove one of them";
  EXPECT_EQ(message("", R"({"text": "a", "text": "b"})"), "line 2: `text" + twice);
  EXPECT_EQ(message("--decode", R"({"ids": [5], "ids": [6]})"), "line 2: `ids" + twice);
  EXPECT_EQ(message("", R"({"text": "a", "more": {"x": 1, "x": 2}})"), "line 2: `more.x" + twice);
  EXPECT_EQ(message("--chat", R"({"messages": [], "messages": []})"), "line 2: `messages" + twice);
  EXPECT_EQ(
      message("--set limits.line_bytes_max=1024", "{\"text\": \"" + std::string(2000, 'a') + "\"}"),
      "line 2: the line has 2012 bytes; at most 1024 are allowed (limits.line_bytes_max); "
      "shorten it or raise the limit");
}

TEST_F(CommandLine, VerifySpeaksOfTheGoldenFile) {
  const Outcome ended = run("verify --model " + kModel + " absent.safetensors");
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_TRUE(has(ended.err, "absent.safetensors: is not there, expected a golden file"))
      << ended.err;
}

/// A closed descriptor's number must not go to a file of the job: messages would stand in it. What
/// cannot be printed is a failure; the job itself is done.
TEST_F(CommandLine, ClosedStandardStreamsSpoilNoFile) {
  folder_.write("in.jsonl", completion_line("a", R"({"prompt":[5],"max_tokens":2})") + "no json\n");
  for (const char* closed : {"2>&-", ">&- 2>&-", "<&- >&- 2>&-"}) {
    const std::string command = "cd '" + folder_.path("") +
                                "' && '" TROUPE_EXECUTABLE
                                "' batch --restart --log-level trace --summary s.json --model '" +
                                kModel + "' --input in.jsonl --output out.jsonl " + closed;
    const int state = std::system(command.c_str());
    EXPECT_EQ(WEXITSTATUS(state), closed == std::string("2>&-") ? 3 : 1) << closed;
    for (const char* name : {"out.jsonl", "out.errors.jsonl"}) {
      ASSERT_EQ(lines_of(folder_.read(name)).size(), 1U) << closed << "\n" << folder_.read(name);
      EXPECT_TRUE(Json::accept(folder_.read(name))) << closed;
    }
    EXPECT_TRUE(
        Json::accept(folder_.read("in.jsonl").substr(0, folder_.read("in.jsonl").find('\n'))));
    EXPECT_TRUE(Json::accept(folder_.read("s.json"))) << closed;
  }
}

// One message, whatever the command writes with and wherever it notices.
TEST_F(CommandLine, AFullStandardOutputIsAFailure) {
  folder_.write("many", [] {
    std::string lines;
    for (int i = 0; i < 2'000; ++i)
      lines += "{\"text\": \"one line among many\"}\n";
    return lines;
  }());
  const std::string commands[] = {
      "help batch", "--version", "tokenize --input many --model " + kModel, "inspect " + kModel,
      "sim run " + kSource + "/configs/sim/split.toml --json --seeds 1..3"};
  for (const std::string& command : commands) {
    const Outcome ended = run(command + " >/dev/full 2>stderr #");
    EXPECT_EQ(ended.exit_code, 1) << command;
    EXPECT_EQ(ended.err, "troupe: standard output: the results could not be written completely; is "
                         "its disk full, or its reader gone?\n")
        << command;
  }
}

TEST_F(CommandLine, ASmallStackIsRefusedAtOnce) {
  const auto limited = [&](const char* kib) {
    folder_.write("limited.sh", std::string("ulimit -s ") + kib +
                                    "\nexec '" TROUPE_EXECUTABLE "' " + "tokenize --model " +
                                    kModel + "\n");
    return run("--version >/dev/null; sh limited.sh", "{\"text\": \"Hello\"}\n");
  };
  const Outcome ended = limited("128");
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_EQ(ended.err,
            "troupe: the stack is smaller than 256 KiB; raise its limit: ulimit -s 8192\n");
  EXPECT_EQ(limited("256").exit_code, 0) << "what is not refused is enough";
}

TEST_F(CommandLine, TokenizeRendersChats) {
  const Outcome chat =
      run("tokenize --chat --model " + kModel, R"({"messages":[{"role":"user","content":"hi"}]})"
                                               "\n{\"messages\":[]}\n");
  EXPECT_EQ(chat.exit_code, 3);
  const std::vector<std::string> lines = lines_of(chat.out);
  ASSERT_EQ(lines.size(), 2U) << chat.err;
  EXPECT_TRUE(has(Json::parse(lines[0])["prompt"].get<std::string>(), "hi"));
  EXPECT_TRUE(Json::parse(lines[0])["ids"].is_array());
  const Json error = Json::parse(lines[1])["error"];
  EXPECT_EQ(error["param"], "messages");
  EXPECT_TRUE(error["message"].get<std::string>().starts_with("line 2: ")) << error;
}

TEST_F(CommandLine, InspectReadsHeaders) {
  const Outcome text = run("inspect " + kModel);
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_TRUE(has(text.out, "present, unused"));
  EXPECT_TRUE(Json::parse(run("inspect --json " + kModel).out).is_object());
  EXPECT_EQ(run("inspect nowhere").exit_code, 2);
}

TEST_F(CommandLine, BatchCheckNamesBadLines) {
  folder_.write("in.jsonl", completion_line("a", R"({"prompt":"x"})") + "no json\n" +
                                completion_line("a", R"({"prompt":"y"})") + "\n" +
                                completion_line("b", R"({"prompt":"x","temprature":1})"));
  const Outcome checked = run("batch --check --input in.jsonl --model " + kModel);
  EXPECT_EQ(checked.exit_code, 3);
  const std::vector<std::string> lines = lines_of(checked.out);
  ASSERT_EQ(lines.size(), 3U) << checked.out;
  EXPECT_TRUE(has(lines[0], "in.jsonl:2: invalid_json")) << lines[0];
  EXPECT_TRUE(has(lines[1], "in.jsonl:3: custom_id \"a\": duplicate_custom_id")) << lines[1];
  EXPECT_TRUE(has(lines[2], "in.jsonl:5: custom_id \"b\"")) << lines[2];
  EXPECT_TRUE(has(lines[2], "temperature")) << lines[2];
  const Outcome json = run("batch --check --json --input in.jsonl --model " + kModel);
  EXPECT_EQ(Json::parse(lines_of(json.out)[1])["line"], 3);
  folder_.write("good.jsonl", completion_line("a", R"({"prompt":"x"})"));
  EXPECT_EQ(run("batch --check --input good.jsonl --model " + kModel).exit_code, 0);
  EXPECT_EQ(run("batch --check --input nowhere").exit_code, 2);
}

TEST_F(CommandLine, BatchRunsResumesAndRefuses) {
  const std::string null = " --set rank.prefill.device=null --set rank.decode.device=null"
                           " --set ledger.level=off --model " +
                           kModel;
  const std::string files = "batch --input in.jsonl --output out.jsonl --summary s.json" + null;
  folder_.write("in.jsonl", completion_line("a", R"({"prompt":"x","max_tokens":3})") + "broken\n" +
                                completion_line("b", R"({"prompt":["x","y"],"max_tokens":2})") +
                                completion_line("c", R"({"prompt":"x","n":2})"));
  const Outcome first = run(files);
  EXPECT_EQ(first.exit_code, 3) << first.err;
  EXPECT_EQ(lines_of(folder_.read("out.jsonl")).size(), 2U);
  const std::vector<std::string> errors = lines_of(folder_.read("out.errors.jsonl"));
  ASSERT_EQ(errors.size(), 2U);
  const bool is_first = errors[0].find("\"custom_id\":\"c\"") != std::string::npos;
  const Json refused = Json::parse(errors[is_first ? 0 : 1]);
  EXPECT_EQ(refused["response"]["status_code"], 400);
  EXPECT_EQ(refused["response"]["body"]["error"]["param"], "n");
  const Json unreadable = Json::parse(errors[is_first ? 1 : 0]);
  EXPECT_TRUE(unreadable["custom_id"].is_null());
  EXPECT_EQ(unreadable["line"], 2);
  EXPECT_EQ(Json::parse(folder_.read("s.json"))["requests"]["failed"], 2);
  const std::string output = folder_.read("out.jsonl");

  const Outcome again = run(files);
  EXPECT_EQ(again.exit_code, 3) << "as it ended then";
  EXPECT_TRUE(has(again.err, "already complete")) << again.err;
  EXPECT_EQ(folder_.read("out.jsonl"), output);

  const Outcome changed = run(files + " --set cluster.seed=2");
  EXPECT_EQ(changed.exit_code, 2);
  EXPECT_TRUE(has(changed.err, "cluster.seed was 1, is 2 now")) << changed.err;
  EXPECT_EQ(run("batch --input in.jsonl --output in.jsonl" + null).exit_code, 2);
  EXPECT_EQ(run(files + " --errors out.jsonl").exit_code, 2);
  folder_.write("mine.txt", "mine\n");
  EXPECT_EQ(run("batch --input in.jsonl --output mine.txt" + null).exit_code, 2);
  EXPECT_EQ(folder_.read("mine.txt"), "mine\n");
  EXPECT_EQ(run(files + " --restart").exit_code, 3);
  EXPECT_NE(folder_.read("out.jsonl"), output) << "a new job has new ids";
}

TEST_F(CommandLine, BatchReadsStandardInput) {
  const Outcome outcome =
      run("batch --input - --output out.jsonl --set rank.prefill.device=null"
          " --set rank.decode.device=null --set ledger.level=off --order input --model " +
              kModel,
          completion_line("a", R"({"prompt":"x"})") + completion_line("b", R"({"prompt":"y"})"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::vector<std::string> lines = lines_of(folder_.read("out.jsonl"));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(Json::parse(lines[0])["custom_id"], "a");
  EXPECT_FALSE(folder_.has("out.jsonl.journal"));
  EXPECT_FALSE(folder_.has("out.errors.jsonl"));
}

TEST_F(CommandLine, ExplainTellsWhereTheTimeWent) {
  const std::string null =
      " --set rank.prefill.device=null --set rank.decode.device=null --model " + kModel;
  folder_.write("in.jsonl", completion_line("a", R"({"prompt":"x","max_tokens":3})") +
                                completion_line("b", R"({"prompt":["x","y"],"max_tokens":2})"));
  ASSERT_EQ(run("batch --quiet --input in.jsonl --output out.jsonl" + null).exit_code, 0);
  const std::string ledger = " --ledger out.jsonl.ledger";
  const Outcome words = run("explain a" + ledger);
  EXPECT_EQ(words.exit_code, 0) << words.err;
  EXPECT_TRUE(has(words.out, "(a): ok (length) after ")) << words.out;
  EXPECT_TRUE(has(words.out, "chose prefill-0: only_choice")) << words.out;
  const Outcome both = run("explain b --json" + ledger);
  ASSERT_EQ(lines_of(both.out).size(), 2U) << "an object a choice: " << both.out;
  for (const std::string& line : lines_of(both.out)) {
    const Json story = Json::parse(line);
    EXPECT_EQ(story["custom_id"], "b");
    std::int64_t told_us = 0;
    for (const Json& span : story["spans"]) {
      EXPECT_EQ(span["from_us"], told_us);
      EXPECT_FALSE(span["why"].get<std::string>().empty());
      told_us = span["to_us"];
    }
    EXPECT_EQ(story["latency_us"], told_us);
    EXPECT_EQ(story["decisions"][0]["kind"], "admission");
    const std::string number = story["request"].dump();
    EXPECT_EQ(run("explain --json " + number + ledger).out, line + "\n");
  }
  EXPECT_TRUE(has(run("explain a --why-not decode-0" + ledger).out, "it was chosen"));
  const Outcome no_rank = run("explain a --why-not decode-9" + ledger);
  EXPECT_EQ(no_rank.exit_code, 2);
  EXPECT_TRUE(has(no_rank.err, "\"decode-0\" (or ")) << no_rank.err;
  const std::size_t at = no_rank.err.find("\"decode-0\" (or ") + 15;
  const std::string number = no_rank.err.substr(at, no_rank.err.find(')', at) - at);
  EXPECT_EQ(run("explain a --why-not " + number + ledger).out,
            run("explain a --why-not decode-0" + ledger).out);
  const Outcome unknown = run("explain c" + ledger);
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_TRUE(has(unknown.err, "no request is named \"c\"")) << unknown.err;
  EXPECT_EQ(unknown.out, "");
  EXPECT_EQ(run("explain a --ledger nowhere").exit_code, 2);
  EXPECT_EQ(run("explain a").exit_code, 2);
}

} // namespace
} // namespace troupe::app
