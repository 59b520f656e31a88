// Goal: the policies of a running job change by file and by command, a refused set leaves the old
// one live, and answers are those of a job that nobody touched.
// Method: real processes on the null device: a job of answers that take minutes, and the commands
// beside it, as a person would give them.

#include "tests/support/batch_folder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

namespace troupe::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string set_text(const std::string& name, const std::string& policy = "random") {
  return fmt::format("name = \"{}\"\n[prefill_router]\npolicy = \"{}\"\n", name, policy);
}

class PolicyTest : public testing::Test {
protected:
  void TearDown() override {
    if (!process_) return;
    process_->signal(SIGINT);
    process_->signal(SIGINT);
    process_->wait();
  }

  /// A job of so many lines and tokens a line, whose steps take their modelled time.
  void prepare(std::int64_t lines, std::int64_t tokens) {
    job_.write_input(BatchFolder::completions(lines, tokens));
    job_.use_null_device();
    for (const char* set :
         {"cost_model.null_speed=1.0", "limits.inflight_max=4", "limits.stop_grace_s=1"}) {
      job_.flags.emplace_back("--set");
      job_.flags.emplace_back(set);
    }
  }
  ProcessOptions loud(const std::vector<std::string>& more) const {
    ProcessOptions options = job_.command(more);
    std::erase(options.arguments, "--quiet");
    return options;
  }
  /// Starts a job that runs until it is stopped.
  void start(const std::vector<std::string>& more = {}) {
    prepare(8, 100'000);
    process_ = std::make_unique<TroupeProcess>(loud(more));
    ASSERT_TRUE(process_->wait_for_error_text("control socket: ")) << process_->wait().err;
  }

  ProcessEnd policy(std::vector<std::string> words) const {
    words.insert(words.begin(), "policy");
    return TroupeProcess({words, job_.files.path(""), -1, {}}).wait();
  }
  /// The document of a command that is to end with this code.
  Json document(std::vector<std::string> words, int code = 0) const {
    words.emplace_back("--json");
    const ProcessEnd end = policy(words);
    EXPECT_EQ(end.code, code) << end.out << end.err;
    const Json parsed = Json::parse(end.out, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << end.out;
    return parsed;
  }
  bool goes_live(const std::string& name) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
    while (document({"show"})["name"] != name) {
      if (std::chrono::steady_clock::now() > deadline) return false;
    }
    return true;
  }
  std::string path(const std::string& name) const { return job_.files.path(name); }

  BatchFolder job_;
  std::unique_ptr<TroupeProcess> process_;
};

TEST_F(PolicyTest, CommandsChangeARunningJob) {
  start();
  const Json first = document({"show"});
  EXPECT_EQ(first["epoch"], 1);
  EXPECT_EQ(first["name"], "default");
  EXPECT_EQ(first["state"], "live");
  EXPECT_EQ(first["kinds"]["prefill_router"]["policy"], "least_work");
  job_.files.write("mine.toml", set_text("mine"));
  const Json swapped = document({"swap", "mine.toml"});
  EXPECT_EQ(swapped["ok"], true);
  EXPECT_EQ(swapped["epoch"], 2);
  const Json show = document({"show"});
  EXPECT_EQ(show["name"], "mine");
  EXPECT_EQ(show["state"], "probation");
  EXPECT_EQ(document({"diff", "mine.toml"})["equal"], true);
  job_.files.write("wrong.toml", set_text("wrong", "rondom"));
  const Json refused = document({"swap", "wrong.toml"}, 2);
  EXPECT_EQ(refused["ok"], false);
  EXPECT_EQ(refused["epoch"], 2) << "the old set stays live";
  EXPECT_EQ(refused["errors"][0]["line"], 3);
  EXPECT_EQ(document({"promote"})["ok"], true);
  EXPECT_EQ(document({"show"})["state"], "live");
  EXPECT_EQ(document({"shadow", "decode_balancer", "least_count"})["epoch"], 3);
  EXPECT_EQ(document({"canary", "handoff", "paced", "--share", "0.25"})["epoch"], 4);
  const Json shadowed = document({"show"});
  EXPECT_EQ(shadowed["shadow"]["decode_balancer"]["policy"], "least_count");
  EXPECT_EQ(shadowed["canary"]["share"], 0.25);
  const Json back = document({"rollback"});
  EXPECT_EQ(back["name"], "mine");
  EXPECT_EQ(back["epoch"], 5);
  const Json sets = document({"history"})["sets"];
  ASSERT_EQ(sets.size(), 5U) << sets;
  EXPECT_EQ(sets[0]["how"], "start");
  EXPECT_EQ(sets[4]["how"], "rollback");
  EXPECT_TRUE(process_->is_running());
}

TEST_F(PolicyTest, CommandsSayItInWords) {
  start();
  EXPECT_NE(policy({"show"}).out.find("policy set \"default\", epoch 1"), std::string::npos);
  job_.files.write("mine.toml", set_text("mine"));
  EXPECT_EQ(policy({"diff", "mine.toml"}).out,
            "name: \"default\" -> \"mine\"\n"
            "prefill_router.affinity_token_ps: 0 -> none\n"
            "prefill_router.policy: \"least_work\" -> \"random\"\n"
            "prefill_router.ties: \"lowest_id\" -> none\n");
  EXPECT_EQ(policy({"swap", "mine.toml"}).out,
            "policy set \"mine\" is live with epoch 2: asked for by command\n");
  job_.files.write("wrong.toml", set_text("wrong", "rondom"));
  const ProcessEnd refused = policy({"swap", "wrong.toml"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_NE(refused.err.find("wrong.toml:3: prefill_router.policy: found the text \"rondom\""),
            std::string::npos)
      << refused.err;
  EXPECT_NE(refused.err.find("policy set \"mine\", epoch 2, stays live"), std::string::npos);
  EXPECT_EQ(policy({"swap", "absent.toml"}).code, 2);
  EXPECT_NE(policy({"history"}).out.find("asked for by command"), std::string::npos);
  const ProcessEnd unknown = policy({"shadow", "quue", "sjf"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("did you mean \"queue\"?"), std::string::npos) << unknown.err;
}

TEST_F(PolicyTest, TopShowsTheJobOnceASecond) {
  start();
  TroupeProcess top({{"top", "--count", "2", "--json"}, path(""), -1, {}});
  const ProcessEnd end = top.wait();
  EXPECT_EQ(end.code, 0) << end.err;
  const std::vector<std::string> lines = app::lines_of(end.out);
  ASSERT_EQ(lines.size(), 2U) << end.out;
  const Json last = Json::parse(lines[1]);
  EXPECT_EQ(last["name"], "default");
  EXPECT_EQ(last["ranks"].size(), 2U);
  EXPECT_TRUE(last["experts"].contains("reports"));
  EXPECT_GT(last["ranks"][0]["kv_blocks_total"], 0);
  EXPECT_GT(last["job"]["running"], 0);
  EXPECT_GT(last["decisions"].size(), 0U);
  EXPECT_FALSE(last["decisions"][0]["reason"].get<std::string>().empty());
  const ProcessEnd words = TroupeProcess({{"top", "--count", "1"}, path(""), -1, {}}).wait();
  EXPECT_NE(words.out.find("prefill-0"), std::string::npos) << words.out;
  EXPECT_EQ(words.out.find('\x1b'), std::string::npos) << "colour is for terminals";
}

TEST_F(PolicyTest, R13_TheFileOfARunningJobGoesLiveEachWay) {
  job_.files.write("p.toml", set_text("a"));
  start({"--policies", "p.toml"});
  EXPECT_EQ(document({"show"})["name"], "a");
  fs::rename(job_.files.write("new.toml", set_text("by_rename")), path("p.toml"));
  EXPECT_TRUE(goes_live("by_rename"));
  job_.files.write("p.toml", set_text("by_writing"));
  EXPECT_TRUE(goes_live("by_writing"));
  job_.files.write("linked.toml", set_text("by_link"));
  fs::create_symlink("linked.toml", path("flip"));
  fs::rename(path("flip"), path("p.toml"));
  EXPECT_TRUE(goes_live("by_link"));
  fs::rename(job_.files.write("new.toml", set_text("wrong", "rondom")), path("p.toml"));
  EXPECT_TRUE(process_->wait_for_error_text("p.toml:3: prefill_router.policy: found the text"));
  EXPECT_EQ(document({"show"})["name"], "by_link");
  const Json sets = document({"history"})["sets"];
  ASSERT_EQ(sets.size(), 4U) << sets;
  EXPECT_EQ(sets[3]["how"], "file");
}

TEST_F(PolicyTest, AnswersDoNotDependOnSwaps) {
  prepare(120, 6);
  BatchFolder calm;
  calm.write_input(BatchFolder::completions(120, 6));
  calm.use_null_device();
  ASSERT_EQ(calm.run().code, 0);
  job_.files.write("p.toml", set_text("s0"));
  process_ = std::make_unique<TroupeProcess>(loud({"--policies", "p.toml"}));
  const char* policies[] = {"random", "round_robin", "least_tokens"};
  int changes = 0;
  for (; process_->is_running(); ++changes) {
    fs::rename(
        job_.files.write("new.toml", set_text(fmt::format("s{}", changes), policies[changes % 3])),
        path("p.toml"));
    std::this_thread::sleep_for(std::chrono::milliseconds{300});
  }
  const ProcessEnd end = process_->wait();
  process_.reset();
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.err.find("is live as epoch 2"), std::string::npos) << end.err;
  EXPECT_TRUE(job_.answers().is_exact());
  EXPECT_TRUE(job_.answers() == calm.answers());
  EXPECT_FALSE(fs::exists(path("out.jsonl.sock"))) << "it goes with the job";
}

TEST_F(PolicyTest, TheSocketIsItsUsersAndASecondJobRunsWithoutIt) {
  start();
  struct stat facts {};
  ASSERT_EQ(::lstat(path("out.jsonl.sock").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0600U);
  BatchFolder second;
  second.write_input(BatchFolder::completions(3));
  second.use_null_device();
  ProcessOptions options =
      second.command({"--set", fmt::format("control.socket={}", path("out.jsonl.sock"))});
  std::erase(options.arguments, "--quiet");
  const ProcessEnd end = TroupeProcess(options).wait();
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.err.find("another process serves this control socket"), std::string::npos)
      << end.err;
  EXPECT_EQ(document({"show"})["epoch"], 1) << "the first one still answers";
}

TEST_F(PolicyTest, TheSocketOfAKilledJobIsReplaced) {
  start();
  process_->signal(SIGKILL);
  process_->wait();
  EXPECT_TRUE(fs::exists(fs::symlink_status(path("out.jsonl.sock"))));
  const ProcessEnd dead = policy({"show", "--connect", "out.jsonl.sock"});
  EXPECT_EQ(dead.code, 1);
  EXPECT_NE(dead.err.find("has ended"), std::string::npos) << dead.err;
  process_ = std::make_unique<TroupeProcess>(loud({}));
  ASSERT_TRUE(process_->wait_for_error_text("control socket: "));
  EXPECT_EQ(document({"show", "--connect", "out.jsonl.sock"})["name"], "default");
}

TEST_F(PolicyTest, HostileBytesDoNoHarm) {
  start();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof(address.sun_path), "%s", path("out.jsonl.sock").c_str());
  std::vector<int> held;
  for (int i = 0; i < 40; ++i) {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    std::string bytes(static_cast<std::size_t>(i) * 50'000, static_cast<char>(i * 37));
    if (i % 3 == 0) bytes += '\n';
    static_cast<void>(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    i % 2 == 0 ? static_cast<void>(::close(socket)) : held.push_back(socket);
  }
  for (const int socket : held)
    ::close(socket);
  Json show;
  for (int i = 0; i < 100 && show["name"] != "default"; ++i)
    show = Json::parse(policy({"show", "--json"}).out, nullptr, false);
  EXPECT_EQ(show["name"], "default");
  EXPECT_TRUE(process_->is_running());
}

TEST_F(PolicyTest, WithoutASystemTheCommandsSayHowToFindOne) {
  for (const char* verb : {"show", "history", "promote", "rollback"}) {
    const ProcessEnd end = policy({verb});
    EXPECT_EQ(end.code, 1) << verb;
    EXPECT_NE(end.err.find("--connect SOCKET"), std::string::npos) << end.err;
    EXPECT_EQ(end.out, "");
  }
  EXPECT_EQ(TroupeProcess({{"top"}, path(""), -1, {}}).wait().code, 1);
  EXPECT_EQ(policy({"swap"}).code, 2);
  EXPECT_EQ(policy({"sho"}).code, 2);
  EXPECT_EQ(policy({}).code, 2);
  EXPECT_EQ(policy({"canary", "handoff", "paced", "--share", "2"}).code, 2);
}

TEST_F(PolicyTest, CheckAndDiffNeedNoSystem) {
  job_.files.write("good.toml", set_text("good"));
  job_.files.write("bad.toml", set_text("bad", "rondom"));
  const ProcessEnd good = policy({"check", "good.toml"});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_NE(good.out.find("prefill_router.policy = \"random\"\n"), std::string::npos) << good.out;
  EXPECT_NE(good.out.find("queue.policy = \"fcfs\""), std::string::npos);
  EXPECT_NE(good.out.find("# default"), std::string::npos);
  const ProcessEnd bad = policy({"check", "bad.toml"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_EQ(bad.err.rfind("troupe: bad.toml:3: prefill_router.policy: found", 0), 0U) << bad.err;
  const Json errors = document({"check", "bad.toml"}, 2);
  EXPECT_EQ(errors["ok"], false);
  EXPECT_EQ(errors["errors"][0]["file"], "bad.toml");
  EXPECT_EQ(errors["errors"][0]["key"], "prefill_router.policy");
  EXPECT_EQ(document({"check", "good.toml"})["ok"], true);
  const Json diff = document({"diff", "good.toml", "good.toml"});
  EXPECT_EQ(diff["equal"], true);
  EXPECT_EQ(policy({"diff", "good.toml", "bad.toml"}).code, 2);
}

} // namespace
} // namespace troupe::test
