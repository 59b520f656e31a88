// The look in a child process: whatever a library does there, this process hears it in one
// sentence, in time, and nothing of the child is left.

#include "actors/plugin_child.hpp"
#include "actors/plugin_preflight.hpp"
#include "tests/actors/plugin_files.hpp"
#include "tests/support/effort.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>

namespace troupe::actors {
namespace {

using test::library;
using test::plugin_path;

constexpr const char* kWhere = " (pre-flight, in a child process)";

std::string look(const std::string& path, const PreflightPolicy& policy = {},
                 std::int64_t create_ms = 20'000) {
  const auto file = read_library(path);
  if (!file.ok()) return file.error().message;
  auto limits = library(path);
  limits.create_ms = create_ms;
  const Status status = preflight(test::loader_options().child, *file, limits, policy);
  return status.ok() ? "" : status.error().message;
}

/// What is said of the test policy in one of its modes, without the file's name.
std::string in_mode(const std::string& mode, int after = 0, std::int64_t create_ms = 20'000) {
  const std::string path = plugin_path("bad_policies");
  std::string said =
      look(path,
           {"decode_balancer", "bad",
            R"({"mode":")" + mode + R"(","after":)" + std::to_string(after) + R"(,"sleep_ms":0})"},
           create_ms);
  if (said.rfind(path + ": ", 0) == 0) said.erase(0, path.size() + 2);
  return said;
}

class PluginPreflight : public ::testing::Test {
protected:
  ~PluginPreflight() override {
    int status = 0;
    EXPECT_EQ(::waitpid(-1, &status, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD) << "no child and no zombie is left";
  }
};

TEST_F(PluginPreflight, GoodLibrariesPass) {
  EXPECT_EQ(look(plugin_path("good_policies")), "");
  EXPECT_EQ(look(plugin_path("good_policies"), {"queue", "newest", R"({"alpha":1})"}), "");
  EXPECT_EQ(look(plugin_path("good_policies"), {"prefill_chunker", "one", "{}"}), "");
  EXPECT_EQ(in_mode("good"), "");
}

TEST_F(PluginPreflight, WhatIsNoLibraryOfPoliciesIsRefused) {
  const test::TempFolder folder;
  const std::string garbage = folder.put("garbage.so", std::string(10'000, '#'));
  EXPECT_EQ(look(garbage), garbage + ": cannot be loaded: garbage.so: invalid ELF header" + kWhere);
  EXPECT_NE(look(plugin_path("odd_no_entry")).find("it exports no troupe_plugin_entry"),
            std::string::npos);
  EXPECT_NE(look(plugin_path("odd_major")).find("built for ABI major 2, this host has 1"),
            std::string::npos);
  EXPECT_EQ(look(plugin_path("good_policies"), {"queue", "neweset", "{}"}),
            plugin_path("good_policies") + ": queue \"neweset\": the library holds no such policy" +
                kWhere);
}

TEST_F(PluginPreflight, ConstructorsThatCrashOrHangAreRefused) {
  EXPECT_EQ(look(plugin_path("odd_load_crashes")),
            plugin_path("odd_load_crashes") + ": load ended the process with SIGKILL" + kWhere);
  EXPECT_EQ(look(plugin_path("odd_load_hangs"), {}, 300),
            plugin_path("odd_load_hangs") + ": load did not return within 300 ms" + kWhere);
}

TEST_F(PluginPreflight, CreateIsTried) {
  const std::string create = "create of decode_balancer \"bad\"";
  EXPECT_EQ(in_mode("create_crashes"), create + " ended the process with SIGSEGV" + kWhere);
  EXPECT_EQ(in_mode("create_hangs", 0, 300), create + " did not return within 300 ms" + kWhere);
  EXPECT_EQ(in_mode("create_exits"),
            create + " ended the process with exit code 7; it printed: nothing works here" +
                kWhere);
  EXPECT_EQ(
      in_mode("create_fails"),
      std::string("decode_balancer \"bad\": create failed: mode \"create_fails\" is not for 3 "
                  "people") +
          kWhere);
}

TEST_F(PluginPreflight, QuestionsAreAsked) {
  const std::string decide = "decide of decode_balancer \"bad\"";
  EXPECT_EQ(in_mode("crashes"), decide + " ended the process with SIGSEGV" + kWhere);
  EXPECT_EQ(in_mode("hangs", 1, 300), decide + " did not return within 300 ms" + kWhere);
  EXPECT_EQ(in_mode("fails"),
            std::string("decode_balancer \"bad\": asked about one rank: decide returned -3: no "
                        "memory") +
                kWhere);
  EXPECT_EQ(in_mode("fails_oddly"),
            std::string("decode_balancer \"bad\": asked about one rank: decide returned -3: "
                        "\\x1b[31m\\xff red") +
                kWhere);
  EXPECT_EQ(in_mode("no_such_rank", 1),
            std::string("decode_balancer \"bad\": asked about three ranks: the chosen rank is not "
                        "in the view") +
                kWhere);
  EXPECT_NE(in_mode("state_is_endless").find("export_state gave two sizes, or more than"),
            std::string::npos);
  EXPECT_EQ(in_mode("destroy_crashes"),
            std::string("destroy of decode_balancer \"bad\" ended the process with SIGSEGV") +
                kWhere);
  EXPECT_EQ(in_mode("destroy_hangs", 0, 300),
            std::string("destroy of decode_balancer \"bad\" did not return within 300 ms") +
                kWhere);
}

TEST_F(PluginPreflight, WhatALibraryChangesInTheProcessIsRefused) {
  const std::pair<const char*, std::string> changes[] = {
      {"forks", "leaves processes behind; a library may not fork"},
      {"forks_and_waits", "forks; a library may not, for the copy holds all files of the job"},
      {"leaves_daemon", "leaves processes behind; a library may not fork"},
      {"changes_folder", "changes the working directory to /; a library may not, for the job's "
                         "paths begin there"},
      {"changes_umask", "changes the umask from 022 to 077; a library may not, for it is that of "
                        "the job's files"},
      {"changes_signal", "changes what SIGTERM does; a library may not"}};
  const mode_t mask = ::umask(022);
  for (const auto& [mode, what] : changes)
    EXPECT_EQ(in_mode(mode), what + kWhere) << mode;
  ::umask(mask);
}

TEST_F(PluginPreflight, MemoryWithoutEndIsRefusedBeforeItHurts) {
  if (test::kIsSanitized) GTEST_SKIP() << "the sanitizer's own memory counts";
  const std::string said = in_mode("takes_memory");
  EXPECT_TRUE(said.starts_with("takes ")) << said;
  EXPECT_NE(said.find("MiB of memory, expected at most 1024 MiB"), std::string::npos) << said;
}

/// Whether the process runs. Whoever adopts it reaps it in its own time; until then it is a zombie
/// without memory.
bool ends_soon(pid_t process) {
  const std::string stat_path = "/proc/" + std::to_string(process) + "/stat";
  std::string stat;
  const auto alive = [&] {
    std::ifstream in(stat_path);
    return std::getline(in, stat) && stat.find(") Z ") == std::string::npos;
  };
  for (int i = 0; i < 10'000 && alive(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return !alive();
}

TEST_F(PluginPreflight, AProcessThatLeftTheGroupEndsToo) {
  const auto file = read_library(plugin_path("bad_policies"));
  for (const std::string mode : {"leaves_daemon", "leaves_daemon_hangs"}) {
    ChildOrder order;
    order.program = TROUPE_PREFLIGHT_CHILD;
    order.phase_ms = 2'000;
    order.arguments = {file->path,
                       file->digest,
                       "20000",
                       "20000000",
                       "decode_balancer",
                       "bad",
                       R"({"mode":")" + mode + R"(","after":0,"sleep_ms":0})"};
    const ChildEnd end = run_child(order);
    EXPECT_EQ(end.how, mode == "leaves_daemon" ? ChildEnd::How::said_no : ChildEnd::How::hung);
    ASSERT_FALSE(end.printed.empty());
    EXPECT_TRUE(ends_soon(std::stoi(end.printed))) << mode;
  }
}

TEST_F(PluginPreflight, AFileThatChangesMeanwhileIsNotTaken) {
  const test::TempFolder folder;
  const std::string path = folder.put_copy("lib.so", plugin_path("good_policies"));
  const auto file = read_library(path);
  folder.put_copy("lib.so", plugin_path("good_policies_2"));
  const Status status = preflight(test::loader_options().child, *file, library(path), {});
  EXPECT_EQ(status.error().message,
            path + ": the file changed while it was looked at; try again" + kWhere);
}

TEST_F(PluginPreflight, AChildThatIsNoSuchProgramIsAnErrorToo) {
  const auto file = read_library(plugin_path("good_policies"));
  const auto said = [&](const PreflightProgram& program) {
    return preflight(program, *file, library(file->path), {}).error().message;
  };
  EXPECT_EQ(said({"/nowhere/troupe", {}}),
            file->path + ": no process could be started: No such file or directory" + kWhere);
  EXPECT_EQ(said({"/bin/true", {}}),
            file->path + ": start ended the process with exit code 0" + kWhere);
}

TEST_F(PluginPreflight, AChildsChildrenEndWithIt) {
  ChildOrder order;
  order.program = "/bin/sh";
  order.phase_ms = 300;
  // It leaves a process behind, whose number it prints, and hangs.
  order.arguments = {"-c", "sleep 1000 & echo $!; echo at work >&3; wait"};
  const ChildEnd end = run_child(order);
  EXPECT_EQ(end.how, ChildEnd::How::hung);
  EXPECT_EQ(end.phase, "work");
  const pid_t grandchild = std::stoi(end.printed);
  ASSERT_GT(grandchild, 1);
  EXPECT_TRUE(ends_soon(grandchild));
}

TEST_F(PluginPreflight, AChildThatTalksWithoutEndIsEnded) {
  ChildOrder order;
  order.program = "/bin/sh";
  order.arguments = {"-c", "while :; do echo at work >&3; done"};
  const ChildEnd end = run_child(order);
  EXPECT_EQ(end.how, ChildEnd::How::hung);
  order.arguments = {"-c", "i=0; while [ $i -lt 3000 ]; do echo noise; i=$((i+1)); done; exit 3"};
  const ChildEnd noisy = run_child(order);
  EXPECT_EQ(noisy.how, ChildEnd::How::exited);
  EXPECT_EQ(noisy.number, 3);
  EXPECT_LE(noisy.printed.size(), 4096U);
}

} // namespace
} // namespace troupe::actors
