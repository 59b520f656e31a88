// Goal: the control socket answers each request with its document, and nothing that a client sends,
// leaves out or holds open harms another client or the end.
// Method: a socket in a folder of its own over a real manager stage; clients that behave and that
// do not, with time-outs of milliseconds.

#include "actors/app/config_loader.hpp"
#include "actors/app/control_client.hpp"
#include "actors/app/control_documents.hpp"
#include "actors/app/control_socket.hpp"
#include "actors/app/policy_words.hpp"
#include "actors/app/top_board.hpp"
#include "tests/actors/app/temporary_folder.hpp"
#include "tests/support/stage_desk.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <poll.h>
#include <set>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>

namespace troupe::app {
namespace {

using Json = nlohmann::json;
using test::StageDesk;

constexpr auto kLongest = std::chrono::seconds{20};

const std::string kLatency = "name = \"mine\"\n[prefill_router]\npolicy = \"random\"\n";

std::shared_ptr<const sched::PolicyRegistry> builtin_registry() {
  auto registry = std::make_shared<sched::PolicyRegistry>();
  sched::register_builtin_policies(*registry);
  return registry;
}

class ControlSocketTest : public testing::Test {
protected:
  void SetUp() override { serve({}); }

  /// Serves anew with these options.
  void serve(ControlSocketOptions options, std::int64_t answer_us = 60'000'000) {
    socket_.reset();
    auto listener = ControlListener::open(control_path(folder_.path("s.sock")));
    ASSERT_TRUE(listener.ok()) << listener.error().message;
    socket_ = std::make_unique<ControlSocket>(
        std::move(listener).value(), ControlRequests(desk_, registry_, answer_us), options);
  }

  ControlClient client() {
    auto made = ControlClient::connect(socket_->path());
    EXPECT_TRUE(made.ok()) << made.error().message;
    return std::move(made).value();
  }
  static Json ask(ControlClient& client, const std::string& line) {
    const auto answer = client.ask(line, kLongest);
    EXPECT_TRUE(answer.ok()) << answer.error().message;
    return answer.ok() ? Json::parse(*answer) : Json();
  }
  Json ask(const std::string& line) {
    ControlClient one = client();
    return ask(one, line);
  }
  Json result(const Json& request) {
    const Json answer = ask(request.dump());
    EXPECT_EQ(answer["ok"], true) << answer;
    return answer["result"];
  }
  std::string error_code(const std::string& line) {
    const Json answer = ask(line);
    EXPECT_EQ(answer["ok"], false) << answer;
    EXPECT_FALSE(answer["error"]["message"].get<std::string>().empty());
    return answer["error"]["code"];
  }

  /// A bare connection, to send what no client of ours sends.
  int raw() const {
    const int made = connect_control(socket_->path());
    EXPECT_GE(made, 0);
    return made;
  }
  /// Everything until the other side closes; none when it does not for so long.
  static std::optional<std::string>
  read_to_end(int socket, std::chrono::seconds longest = std::chrono::seconds{20}) {
    std::string out;
    const auto deadline = std::chrono::steady_clock::now() + longest;
    std::array<char, 4096> piece{};
    while (std::chrono::steady_clock::now() < deadline) {
      const ssize_t got = ::recv(socket, piece.data(), piece.size(), 0);
      if (got == 0) return out;
      if (got > 0) out.append(piece.data(), static_cast<std::size_t>(got));
      if (got < 0 && errno == ECONNRESET) return out;
      if (got < 0) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    return std::nullopt;
  }
  static void send_all(int socket, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
      if (sent < 0 && errno != EAGAIN) return;
    }
  }

  TemporaryFolder folder_;
  std::shared_ptr<const sched::PolicyRegistry> registry_ = builtin_registry();
  std::shared_ptr<StageDesk> desk_ = std::make_shared<StageDesk>(registry_);
  std::unique_ptr<ControlSocket> socket_;
};

/// A library that is looked at until the test lets it go.
class SlowLibrary final : public sched::LibrarySource {
public:
  Result<sched::PolicyFactory> find(const sched::LibrarySpec&, const std::string&,
                                    const std::string&) override {
    looked_at = true;
    for (int ms = 0; ms < 60'000 && !may_go_on; ++ms)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    return {ErrorCode::bad_argument, "slow.so: looked at in the end"};
  }
  std::set<std::string> names(const sched::LibrarySpec&, const std::string&) override {
    return {"slow"};
  }
  std::atomic<bool> looked_at{false}, may_go_on{false};
};

// The look at a library takes as long as it takes; other clients are answered meanwhile.
TEST_F(ControlSocketTest, ASecondClientIsAnsweredWhileALibraryIsLookedAt) {
  const auto library = std::make_shared<SlowLibrary>();
  auto registry = std::make_shared<sched::PolicyRegistry>();
  sched::register_builtin_policies(*registry);
  registry->set_library_source(library);
  registry_ = registry;
  desk_ = std::make_shared<StageDesk>(registry_);
  serve({});
  const std::string file = folder_.path("slow.so");
  std::ofstream(file) << "bytes";
  const std::string text = fmt::format(
      "name = \"slow\"\n[[library]]\npath = \"{}\"\n[queue]\npolicy = \"slow\"\n", file);
  const int first = raw();
  send_all(first,
           Json{{"command", "check"}, {"text", text}, {"file", "/x/slow.toml"}}.dump() + "\n");
  ::shutdown(first, SHUT_WR);
  for (int ms = 0; ms < 20'000 && !library->looked_at; ++ms)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  ASSERT_TRUE(library->looked_at);
  EXPECT_EQ(result({{"command", "show"}})["name"], "default");
  EXPECT_EQ(result({{"command", "history"}})["sets"].size(), 1U);
  EXPECT_FALSE(library->may_go_on);
  library->may_go_on = true;
  const auto answer = read_to_end(first);
  ::close(first);
  ASSERT_TRUE(answer.has_value());
  const Json check = Json::parse(*answer);
  EXPECT_EQ(check["ok"], true) << check;
  EXPECT_EQ(check["result"]["ok"], false);
  EXPECT_NE(check.dump().find("looked at in the end"), std::string::npos) << check;
}

TEST_F(ControlSocketTest, ShowsWhatIsLive) {
  const Json show = result({{"command", "show"}});
  EXPECT_EQ(show["epoch"], 1);
  EXPECT_EQ(show["name"], "default");
  EXPECT_EQ(show["state"], "live");
  EXPECT_EQ(show["kinds"]["prefill_router"]["policy"], "least_work");
  EXPECT_TRUE(show["kinds"]["prefill_router"]["library"].is_null());
  EXPECT_TRUE(show["kinds"]["prefill_router"].contains("version"));
  EXPECT_EQ(show["kinds"].size(), registry_->kinds().size());
  EXPECT_EQ(show["shadow"], Json::object());
  EXPECT_EQ(show["canary"]["share"], 0.0);
  EXPECT_EQ(show["canary"]["decisions"], 17);
}

TEST_F(ControlSocketTest, SwapsRollsBackAndRemembers) {
  const Json swapped = result({{"command", "swap"}, {"text", kLatency}, {"file", "/x/p.toml"}});
  EXPECT_EQ(swapped["ok"], true);
  EXPECT_EQ(swapped["epoch"], 2);
  EXPECT_EQ(swapped["reason"], "asked for by command");
  const Json show = result({{"command", "show"}});
  EXPECT_EQ(show["name"], "mine");
  EXPECT_EQ(show["state"], "probation");
  EXPECT_EQ(show["file"], "/x/p.toml");
  EXPECT_EQ(show["kinds"]["prefill_router"]["policy"], "random");
  const Json back = result({{"command", "rollback"}, {"reason", "I dislike it"}});
  EXPECT_EQ(back["ok"], true);
  EXPECT_EQ(back["epoch"], 3);
  EXPECT_EQ(back["name"], "default");
  EXPECT_EQ(back["reason"], "I dislike it");
  const Json sets = result({{"command", "history"}})["sets"];
  ASSERT_EQ(sets.size(), 3U);
  EXPECT_EQ(sets[0]["how"], "start");
  EXPECT_EQ(sets[1]["how"], "command");
  EXPECT_EQ(sets[1]["passed"], false);
  EXPECT_TRUE(sets[1]["to_us"].is_number());
  EXPECT_EQ(sets[2]["how"], "rollback");
  EXPECT_EQ(sets[2]["reason"], "I dislike it");
  EXPECT_TRUE(sets[2]["to_us"].is_null());
}

TEST_F(ControlSocketTest, PromotesOnProbationOnly) {
  const Json early = result({{"command", "promote"}});
  EXPECT_EQ(early["ok"], false);
  EXPECT_EQ(result({{"command", "swap"}, {"text", kLatency}})["ok"], true);
  EXPECT_EQ(result({{"command", "promote"}})["ok"], true);
  EXPECT_EQ(result({{"command", "show"}})["state"], "live");
}

TEST_F(ControlSocketTest, ARefusedSetLeavesTheOldOneLive) {
  const std::string wrong = "name = \"n\"\n[queue]\npolicy = \"fcf\"\n";
  const Json refused = result({{"command", "swap"}, {"text", wrong}, {"file", "/x/p.toml"}});
  EXPECT_EQ(refused["ok"], false);
  EXPECT_EQ(refused["epoch"], 1);
  EXPECT_EQ(refused["errors"][0]["line"], 3);
  EXPECT_EQ(refused["errors"][0]["key"], "queue.policy");
  EXPECT_NE(refused["reason"].get<std::string>().find("/x/p.toml:3: queue.policy"),
            std::string::npos);
  EXPECT_EQ(desk_->swaps(), 0);
  const Json by_stage = result({{"command", "swap"}, {"text", "# refuse me\n" + kLatency}});
  EXPECT_EQ(by_stage["ok"], false);
  EXPECT_EQ(by_stage["epoch"], 1);
  EXPECT_EQ(by_stage["reason"], "decode: decode_balancer: a test wants it so");
  EXPECT_EQ(result({{"command", "show"}})["name"], "default");
}

TEST_F(ControlSocketTest, TakesAPathInPlaceOfAText) {
  const std::string file = folder_.write("p.toml", kLatency);
  EXPECT_EQ(result({{"command", "check"}, {"file", file}})["ok"], true);
  EXPECT_EQ(result({{"command", "swap"}, {"file", file}})["name"], "mine");
  const Json absent = result({{"command", "check"}, {"file", folder_.path("none.toml")}});
  EXPECT_EQ(absent["ok"], false);
  EXPECT_NE(absent["errors"][0]["message"].get<std::string>().find("cannot be opened"),
            std::string::npos);
}

// Each door takes what the others take: the longest text fits a request, whatever its bytes are.
TEST_F(ControlSocketTest, ThePolicyFileOfTheMostBytesIsTaken) {
  const auto bytes = static_cast<std::size_t>(kPolicyTextBytesMax);
  const std::string longest = kLatency + "#" + std::string(bytes - kLatency.size() - 1, '"');
  EXPECT_EQ(result({{"command", "check"}, {"text", longest}})["ok"], true);
  const std::string file = folder_.write("p.toml", longest);
  EXPECT_EQ(result({{"command", "swap"}, {"text", longest}, {"file", file}})["ok"], true);
  EXPECT_TRUE(load_policy_file(file, *registry_).ok());

  const std::string longer = longest + "\"";
  const std::string larger = folder_.write("q.toml", longer);
  for (const Json& request :
       {Json{{"command", "swap"}, {"text", longer}}, Json{{"command", "swap"}, {"file", larger}},
        Json{{"command", "swap"}, {"text", std::string(bytes + 1, '\1')}}}) {
    const Json refused = result(request);
    EXPECT_EQ(refused["ok"], false);
    EXPECT_NE(refused["reason"].get<std::string>().find("expected at most 1048576"),
              std::string::npos)
        << refused;
  }
}

TEST_F(ControlSocketTest, ComparesWithTheLiveSet) {
  const Json diff = result({{"command", "diff"}, {"text", kLatency}});
  EXPECT_EQ(diff["equal"], false);
  EXPECT_EQ(diff["a"], "default");
  EXPECT_EQ(diff["b"], "mine");
  ASSERT_EQ(diff["differences"].size(), 4U) << diff;
  EXPECT_EQ(diff["differences"][1]["key"], "prefill_router.affinity_token_ps");
  EXPECT_TRUE(diff["differences"][1]["b"].is_null()) << "the other policy has no such option";
  EXPECT_EQ(diff["differences"][2]["key"], "prefill_router.policy");
  EXPECT_EQ(diff["differences"][2]["a"], "\"least_work\"");
  EXPECT_EQ(diff["differences"][3]["key"], "prefill_router.ties");
  EXPECT_EQ(result({{"command", "diff"}, {"text", "name = \"default\"\n"}})["equal"], true);
}

TEST_F(ControlSocketTest, ShadowAndCanaryAreSwapsLikeAnyOther) {
  const Json shadow =
      result({{"command", "shadow"}, {"kind", "decode_balancer"}, {"policy", "least_count"}});
  EXPECT_EQ(shadow["ok"], true) << shadow;
  EXPECT_EQ(shadow["epoch"], 2);
  EXPECT_EQ(shadow["reason"], "shadow decode_balancer least_count");
  desk_->shadow["decode_balancer"] = {"least_count", 100, 7, 1, 2};
  const Json canary = result(
      {{"command", "canary"}, {"kind", "prefill_router"}, {"policy", "random"}, {"share", 0.05}});
  EXPECT_EQ(canary["ok"], true) << canary;
  const Json show = result({{"command", "show"}});
  EXPECT_EQ(show["shadow"]["decode_balancer"]["policy"], "least_count");
  EXPECT_EQ(show["shadow"]["decode_balancer"]["decisions"], 100);
  EXPECT_EQ(show["shadow"]["decode_balancer"]["disagreed"], 7);
  EXPECT_EQ(show["shadow"]["decode_balancer"]["dropped"], 2);
  EXPECT_EQ(show["canary"]["share"], 0.05);
  EXPECT_EQ(show["canary"]["kinds"]["prefill_router"], "random");
  EXPECT_EQ(show["name"], "default");
  EXPECT_EQ(result({{"command", "shadow"}, {"kind", "decode_balancer"}, {"policy", "off"}})["ok"],
            true);
  const Json wrong = result({{"command", "shadow"}, {"kind", "queue"}, {"policy", "off"}});
  EXPECT_EQ(wrong["ok"], false);
  EXPECT_EQ(wrong["epoch"], 4) << "nothing was swapped";
}

TEST_F(ControlSocketTest, SaysWhereTheLedgerLiesWhenItIsWritten) {
  desk_->ledger = {"/data/out.jsonl.ledger", 17, 5'000};
  desk_->ledger_looks = 3;
  EXPECT_EQ(result({{"command", "ledger"}}),
            (Json{{"folder", "/data/out.jsonl.ledger"}, {"next_number", 17}, {"at_us", 5'000}}));
  desk_->ledger = {};
  EXPECT_TRUE(result({{"command", "ledger"}})["folder"].is_null());
  desk_->ledger_looks = 1'000'000; // Its disk does not answer.
  serve({}, 50'000);
  EXPECT_EQ(error_code(R"({"command":"ledger"})"), "late");
}

TEST_F(ControlSocketTest, RefusesWhatIsNoRequest) {
  EXPECT_EQ(error_code("no json"), "bad_request");
  const Json twice = ask(R"({"command":"show","command":"top"})");
  EXPECT_EQ(twice["error"]["code"], "bad_request");
  EXPECT_EQ(twice["error"]["message"],
            "`command` stands twice in one object, expected once; remove one of them");
  EXPECT_EQ(error_code(R"({"command":"check","text":"a","text":"b"})"), "bad_request");
  EXPECT_EQ(error_code(R"({"command":"check","text":{"a":1}})"), "bad_request");
  for (const char* missing :
       {R"({"command":"shadow","kind":"queue"})", R"({"command":"canary","policy":"fcfs"})"})
    EXPECT_NE(ask(missing)["error"]["message"].get<std::string>().find("missing"),
              std::string::npos)
        << missing;
  EXPECT_EQ(error_code("[1]"), "bad_request");
  EXPECT_EQ(error_code("{}"), "bad_request");
  EXPECT_EQ(error_code("7"), "bad_request");
  EXPECT_EQ(error_code(std::string("\xFF\xFE\x00\x01", 4)), "bad_request");
  EXPECT_EQ(error_code("{\"command\": \"show\""), "bad_request");
  EXPECT_EQ(error_code("{\"command\": 5}"), "bad_request");
  EXPECT_EQ(error_code("{\"command\": {\"command\": {\"a\": [1]}}}"), "bad_request");
  EXPECT_EQ(error_code(R"({"command":"shwo"})"), "unknown_command");
  const Json near = ask(R"({"command":"shwo"})");
  EXPECT_NE(near["error"]["message"].get<std::string>().find("did you mean \"show\""),
            std::string::npos);
  EXPECT_EQ(error_code(R"({"command":"show","x":1})"), "bad_request");
  EXPECT_EQ(error_code(R"({"command":"swap"})"), "bad_request");
  EXPECT_EQ(error_code(R"({"command":"swap","text":5})"), "bad_request");
  EXPECT_EQ(error_code(R"({"command":"swap","text":["a"]})"), "bad_request");
  EXPECT_EQ(error_code(R"({"command":"canary","kind":"handoff","policy":"paced","share":2})"),
            "bad_request");
  EXPECT_EQ(error_code(std::string(100'000, '[')), "bad_request");
  EXPECT_EQ(error_code("{\"command\":" + std::string(100'000, '[') + "}"), "bad_request");
  EXPECT_EQ(desk_->swaps(), 0);
}

TEST_F(ControlSocketTest, OneConnectionTakesManyRequestsInOrder) {
  const int socket = raw();
  std::string lines = "\n \r\n";
  for (int i = 0; i < 100; ++i)
    lines += i % 2 == 0 ? "{\"command\":\"show\"}\r\n" : "{\"command\":\"x\"}\n";
  send_all(socket, lines);
  ::shutdown(socket, SHUT_WR); // The answers still come.
  const auto answers = read_to_end(socket);
  ASSERT_TRUE(answers.has_value());
  const std::vector<std::string> got = lines_of(*answers);
  ASSERT_EQ(got.size(), 100U);
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(Json::parse(got[i])["ok"], i % 2 == 0);
  ::close(socket);
}

TEST_F(ControlSocketTest, ALineTooLongEndsItsClientOnly) {
  ControlSocketOptions options;
  options.line_bytes_max = 5000;
  serve(options);
  const int socket = raw();
  send_all(socket, std::string(200'000, 'x'));
  const auto answer = read_to_end(socket);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(Json::parse(lines_of(*answer).at(0))["error"]["code"], "too_long");
  ::close(socket);
  const int with_end = raw();
  send_all(with_end, std::string(6000, ' ') + "\n");
  EXPECT_NE(read_to_end(with_end).value_or("").find("too_long"), std::string::npos);
  ::close(with_end);
  EXPECT_EQ(result({{"command", "show"}})["epoch"], 1);
}

TEST_F(ControlSocketTest, HalfALineAndSilenceAreGivenUp) {
  ControlSocketOptions options;
  options.line_us_max = 50'000;
  options.idle_us_max = 100'000;
  serve(options);
  const int half = raw();
  send_all(half, "{\"command\":");
  const int silent = raw();
  EXPECT_TRUE(read_to_end(half).has_value());
  EXPECT_TRUE(read_to_end(silent).has_value());
  ::close(half);
  ::close(silent);
}

TEST_F(ControlSocketTest, AClientThatTakesNoAnswerIsGivenUp) {
  ControlSocketOptions options;
  options.answer_us_max = 50'000;
  serve(options);
  const int socket = raw();
  std::string lines;
  for (int i = 0; i < 2000; ++i)
    lines += "{\"command\":\"show\"}\n";
  send_all(socket, lines); // Far more answers than the sockets' buffers hold.
  pollfd hang_up{socket, 0, 0};
  ASSERT_EQ(::poll(&hang_up, 1, 20'000), 1) << "it was not closed";
  EXPECT_EQ(result({{"command", "show"}})["epoch"], 1) << "others are served";
  const auto rest = read_to_end(socket);
  ASSERT_TRUE(rest.has_value()) << "it was closed";
  EXPECT_LT(lines_of(*rest).size(), 2000U);
  ::close(socket);
}

TEST_F(ControlSocketTest, MoreClientsThanTheBoundAreToldSo) {
  ControlSocketOptions options;
  options.clients_max = 4;
  serve(options);
  std::vector<ControlClient> held;
  for (int i = 0; i < 4; ++i) {
    held.push_back(client());
    EXPECT_EQ(ask(held.back(), R"({"command":"top"})")["result"]["at_us"], 1);
  }
  for (int i = 0; i < 50; ++i) {
    const int more = raw();
    const auto answer = read_to_end(more);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(Json::parse(*answer)["error"]["code"], "busy");
    ::close(more);
  }
  EXPECT_EQ(ask(held[0], R"({"command":"top"})")["ok"], true);
  held.clear();
  // The places come free as soon as the socket has seen the ends.
  Json again;
  for (int i = 0; i < 1000 && again["ok"] != true; ++i)
    again = ask(R"({"command":"top"})");
  EXPECT_EQ(again["ok"], true);
}

TEST_F(ControlSocketTest, ASwapThatDoesNotEndHoldsUpNobody) {
  serve({}, 100'000);
  desk_->be_silent(true);
  ControlClient waiting = client();
  const Json late = ask(waiting, Json{{"command", "swap"}, {"text", kLatency}}.dump());
  EXPECT_EQ(late["error"]["code"], "late");
  serve({});
  const int open = raw();
  send_all(open, Json{{"command", "rollback"}}.dump() + "\n");
  const int gone = raw();
  send_all(gone, Json{{"command", "promote"}}.dump() + "\n" +
                     Json{{"command", "swap"}, {"text", kLatency}}.dump() + "\n");
  ::close(gone);
  EXPECT_EQ(result({{"command", "show"}})["epoch"], 1);
  const auto begin = std::chrono::steady_clock::now();
  socket_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{5})
      << "the end waits for nobody";
  EXPECT_TRUE(read_to_end(open).has_value());
  ::close(open);
}

TEST_F(ControlSocketTest, OnlyItsUserMayConnectAndThePathGoesAtTheEnd) {
  struct stat facts {};
  ASSERT_EQ(::lstat(socket_->path().c_str(), &facts), 0);
  EXPECT_TRUE(S_ISSOCK(facts.st_mode));
  EXPECT_EQ(facts.st_mode & 0777U, 0600U);
  const std::string path = socket_->path();
  socket_.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ControlPath, TheSocketOfADeadProcessIsReplacedALiveOneIsNot) {
  const TemporaryFolder folder;
  const std::string path = control_path(folder.path("s.sock"));
  const pid_t child = ::fork();
  if (child == 0) {
    const auto listener = ControlListener::open(path);
    ::_exit(listener.ok() ? 0 : 1); // As after kill -9: the path stays.
  }
  int state = 0;
  ASSERT_EQ(::waitpid(child, &state, 0), child);
  ASSERT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0);
  ASSERT_TRUE(std::filesystem::exists(std::filesystem::symlink_status(path)));
  const auto dead = ControlClient::connect(path);
  ASSERT_FALSE(dead.ok());
  EXPECT_NE(dead.error().message.find("has ended"), std::string::npos) << dead.error().message;
  EXPECT_NE(dead.error().message.find("--connect SOCKET"), std::string::npos);
  const auto first = ControlListener::open(path);
  ASSERT_TRUE(first.ok()) << first.error().message;
  const auto second = ControlListener::open(path);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::busy);
  EXPECT_NE(second.error().message.find("control.socket"), std::string::npos);
}

TEST(ControlPath, WhatIsNoSocketStays) {
  const TemporaryFolder folder;
  const std::string path = folder.write("s.sock", "precious");
  const auto listener = ControlListener::open(path);
  ASSERT_FALSE(listener.ok());
  EXPECT_NE(listener.error().message.find("no socket stands there"), std::string::npos);
  EXPECT_EQ(folder.read("s.sock"), "precious");
  const auto nowhere = ControlListener::open(folder.path("no/folder.sock"));
  EXPECT_FALSE(nowhere.ok());
}

TEST(ControlPath, ALongPathGetsAShortOneThatTheClientFindsToo) {
  const TemporaryFolder folder;
  const std::string wanted = folder.path(std::string(150, 'x') + ".sock");
  const std::string path = control_path(wanted);
  EXPECT_LT(path.size(), sizeof(sockaddr_un::sun_path));
  EXPECT_EQ(control_path(wanted), path);
  EXPECT_NE(control_path(wanted + "2"), path);
  auto listener = ControlListener::open(path);
  ASSERT_TRUE(listener.ok()) << listener.error().message;
  EXPECT_TRUE(ControlClient::connect(wanted).ok());
  struct stat facts {};
  const std::string parent = std::filesystem::path(path).parent_path().string();
  ASSERT_EQ(::lstat(parent.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 077U, 0U);
}

TEST(TopBoard, KnowsTheRatesOfTheLastSeconds) {
  constexpr std::int64_t kSecond = 1'000'000;
  TopBoard board;
  EXPECT_EQ(board.sample(0).output_tokens_per_s, 0);
  for (std::int64_t s = 0; s <= 60; ++s)
    board.publish({s, 0, 3, 1, 100 * s, s < 50 ? 0 : 20 * (s - 50)}, s * kSecond);
  const TopSample top = board.sample(60 * kSecond);
  EXPECT_EQ(top.job.succeeded, 60);
  EXPECT_EQ(top.prompt_tokens_per_s, 100);
  EXPECT_EQ(top.output_tokens_per_s, 20) << "what was longer ago does not count";
  EXPECT_LT(board.sample(65 * kSecond).output_tokens_per_s, 20) << "a job that stands still slows";
}

TEST(PolicyWords, SayWhatTheDocumentsSay) {
  EXPECT_EQ(ended_words(R"({"ok":true,"epoch":3,"name":"a","reason":"why"})"),
            "policy set \"a\" is live with epoch 3: why");
  EXPECT_EQ(ended_words(R"({"ok":false,"epoch":2,"name":"b","reason":"why not"})"),
            "why not; refused; policy set \"b\", epoch 2, stays live");
  const std::string show = show_words(
      R"({"epoch":4,"name":"a\u001b[31m","state":"probation","kinds":{"queue":{"policy":"fcfs",)"
      R"("library":"/l.so","version":"1"}},"shadow":{"step":{"policy":"x","decisions":40,)"
      R"("disagreed":1,"dropped":2}},"canary":{"share":0.05,"decisions":9,)"
      R"("kinds":{"handoff":"y"}}})");
  EXPECT_EQ(show, "policy set \"a\\x1b[31m\", epoch 4, on probation\ncompiled in\n"
                  "  queue            fcfs, of /l.so 1\n"
                  "shadow step: x, 40 decisions, 1 differ (2.5 %), 2 dropped, 0 failed\n"
                  "canary for 5.0 % of the sessions, 9 decisions: handoff y\n");
  EXPECT_NE(history_words(R"({"sets":[{"epoch":1,"name":"n","reason":"a\u202eb\u001b[31m\nc"}]})")
                .find("a\\u202eb\\x1b[31m\\x0ac\n"),
            std::string::npos);
  EXPECT_EQ(ended_words(R"({"ok":false,"epoch":2,"name":"b","reason":"x\u001b\ny"})"),
            "x\\x1b\ny\nrefused; policy set \"b\", epoch 2, stays live");
  EXPECT_EQ(diff_words(R"({"equal":true})"), "no difference\n");
  EXPECT_EQ(diff_words(R"({"equal":false,"differences":[{"key":"k","a":null,"b":"1"}]})"),
            "k: none -> 1\n");
  EXPECT_NE(top_words(R"({"name":"a","ranks":[{"name":"r-0","kv_blocks_held":5,)"
                      R"("kv_blocks_total":10}]})")
                .find("50.0 %"),
            std::string::npos);
}

TEST(PolicyWords, TopTellsOfTheManagerOfExperts) {
  TopSample top;
  top.metrics.requests_running = 128;
  top.metrics.requests_waiting = 112;
  const actors::ManagerView view;
  std::string document = top_document(top, view);
  Json said = Json::parse(document);
  EXPECT_EQ(said["experts"]["epoch"], 0);
  EXPECT_TRUE(said["experts"]["balancedness_predicted"].is_null());
  EXPECT_NE(top_words(document).find("128 running, 112 waiting"), std::string::npos);
  EXPECT_EQ(top_words(document).find("experts:"), std::string::npos) << "nobody has experts";
  top.metrics.experts = {7, 912, 885, 42, 0, 5, 96};
  document = top_document(top, view);
  said = Json::parse(document);
  EXPECT_EQ(said["experts"]["epoch"], 7);
  EXPECT_DOUBLE_EQ(said["experts"]["balancedness_realised"].get<double>(), 0.885);
  EXPECT_EQ(said["experts"]["moves"], 96);
  EXPECT_NE(top_words(document).find(
                "experts: map of epoch 7, balancedness 0.912 predicted, 0.885 realised; 5 maps, 96 "
                "moves, 42 reports\n"),
            std::string::npos)
      << top_words(document);
}

} // namespace
} // namespace troupe::app
