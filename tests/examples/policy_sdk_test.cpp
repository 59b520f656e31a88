// The SDK as a user meets it: `troupe policy test` over the examples and over policies that break
// something, `troupe policy new` from installation to a tested library.

#include "tests/support/troupe_process.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace troupe::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

ProcessEnd troupe(const std::vector<std::string>& arguments, const fs::path& folder = "/usr") {
  ProcessOptions options;
  options.arguments = arguments;
  options.folder = folder.string();
  return TroupeProcess(options).wait();
}

/// Failed checks of each policy, by name, with their details.
std::map<std::string, std::map<std::string, std::string>> failed_checks(const Json& document) {
  std::map<std::string, std::map<std::string, std::string>> failed;
  for (const Json& policy : document.at("policies")) {
    auto& of_policy = failed[policy.at("name")];
    for (const Json& check : policy.at("checks")) {
      if (!check.at("ok").get<bool>()) of_policy[check.at("name")] = check.at("detail");
    }
  }
  return failed;
}

class PolicySdk : public testing::Test {
protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("policy_sdk_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Runs a shell command; what it printed goes along with a failure.
  void shell(const std::string& command) {
    const std::string log = (folder_ / "shell.log").string();
    const int status = std::system((command + " >" + log + " 2>&1").c_str());
    std::ostringstream printed;
    printed << std::ifstream(log).rdbuf();
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command << "\n" << printed.str();
  }

  fs::path folder_;
};

TEST_F(PolicySdk, EveryExamplePassesItsSuite) {
  std::printf("seed 1\n");
  std::istringstream list(TROUPE_EXAMPLE_POLICIES);
  int libraries = 0;
  for (std::string library; std::getline(list, library, ':');) {
    SCOPED_TRACE(library);
    const ProcessEnd end = troupe({"policy", "test", library, "--json"});
    ASSERT_EQ(end.code, 0) << end.out << end.err;
    const Json document = Json::parse(end.out);
    EXPECT_EQ(document.at("ok"), true);
    ASSERT_EQ(document.at("policies").size(), 1U);
    EXPECT_GE(document.at("policies")[0].at("checks").size(), 14U);
    ++libraries;
  }
  EXPECT_EQ(libraries, 8);
}

TEST_F(PolicySdk, EachBrokenPolicyIsFoundByItsCheckAndNoneStopsTheOthers) {
  std::printf("seed 1\n");
  const ProcessEnd end = troupe({"policy", "test", TROUPE_BAD_POLICIES, "--json"});
  ASSERT_EQ(end.code, 3) << end.err;
  const Json document = Json::parse(end.out);
  EXPECT_EQ(document.at("ok"), false);
  ASSERT_EQ(document.at("library").size(), 2U);
  EXPECT_EQ(document.at("library")[0].at("ok"), true);
  EXPECT_EQ(document.at("library")[1].at("name"), "unload");
  EXPECT_EQ(document.at("library")[1].at("ok"), true);
  auto failed = failed_checks(document);
  EXPECT_TRUE(failed.at("good").empty());
  EXPECT_NE(failed.at("crashes")["empty"].find("SIGSEGV"), std::string::npos);
  EXPECT_NE(failed.at("ends")["empty"].find("exit code 0"), std::string::npos);
  EXPECT_EQ(failed.at("forks").size(), 1U);
  EXPECT_EQ(failed.at("forks")["process"], "leaves processes behind; a library may not fork");
  EXPECT_NE(failed.at("moves")["process"].find("changes the working directory to /"),
            std::string::npos);
  EXPECT_NE(failed.at("sleeps")["within_deadline"].find("expected at most 1000 us"),
            std::string::npos);
  EXPECT_NE(failed.at("out_of_range")["valid"].find("question"), std::string::npos);
  EXPECT_EQ(failed.at("without_reason").count("valid"), 1U);
  EXPECT_EQ(failed.at("alternates").count("deterministic"), 1U);
  EXPECT_EQ(failed.at("forgets").count("state"), 1U);
  EXPECT_EQ(failed.at("newest_first").size(), 1U);
  EXPECT_NE(failed.at("newest_first")["liveness"].find("has waited for"), std::string::npos);
  EXPECT_NE(failed.at("throws")["valid"].find("not on a Monday"), std::string::npos);
  EXPECT_NE(failed.at("cannot_begin")["create"].find("no such table"), std::string::npos);
  EXPECT_NE(failed.at("refuses_its_bound")["options"].find("depth is above 8"), std::string::npos);
  EXPECT_NE(failed.at("wrong_default")["schema"].find("default is outside"), std::string::npos);
  EXPECT_NE(failed.at("fcfs")["name"].find("built-in"), std::string::npos);
}

TEST_F(PolicySdk, WhatALibrarySaysIsShownAsOneHarmlessLine) {
  const ProcessEnd end =
      troupe({"policy", "test", TROUPE_BAD_POLICIES, "--policy", "queue/throws"});
  EXPECT_EQ(end.code, 3) << end.err;
  EXPECT_NE(end.out.find("not on a Monday\\x1b[31m"), std::string::npos) << end.out;
  EXPECT_EQ(end.out.find('\x1b'), std::string::npos);
}

TEST_F(PolicySdk, AHangIsEndedAndNamed) {
  const ProcessEnd end = troupe({"policy", "test", TROUPE_HANGING_POLICY, "--decide-us", "250",
                                 "--create-ms", "100", "--policy", "queue/hangs"});
  EXPECT_EQ(end.code, 3) << end.err;
  EXPECT_NE(end.out.find("FAIL  empty"), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("did not return within"), std::string::npos) << end.out;
}

TEST_F(PolicySdk, WhatIsNoLibraryIsRefusedOrFailsToLoad) {
  EXPECT_EQ(troupe({"policy", "test", "/no/such/file.so"}).code, 2);
  std::ofstream(folder_ / "garbage.so") << "no library at all";
  const ProcessEnd garbage =
      troupe({"policy", "test", (folder_ / "garbage.so").string(), "--json"});
  EXPECT_EQ(garbage.code, 3);
  const Json document = Json::parse(garbage.out);
  EXPECT_EQ(document.at("library")[0].at("name"), "load");
  EXPECT_EQ(document.at("library")[0].at("ok"), false);
  EXPECT_NE(document.at("library")[0].at("detail").get<std::string>().find("garbage.so"),
            std::string::npos);
  EXPECT_TRUE(document.at("policies").empty());
  const ProcessEnd other = troupe({"policy", "test", TROUPE_BAD_POLICIES, "--policy", "queue/god"});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("did you mean \"queue/good\"?"), std::string::npos) << other.err;
}

TEST_F(PolicySdk, NewRefusesWhatItCannotMakeAndNeverOverwrites) {
  const auto refused = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"policy", "new"});
    const ProcessEnd end = troupe(arguments, folder_);
    EXPECT_EQ(end.code, 2) << end.out;
    return end.err;
  };
  EXPECT_NE(refused({"mine", "--kind", "queu"}).find("did you mean \"queue\"?"), std::string::npos);
  EXPECT_NE(refused({"mine", "--kind", "queue", "--lang", "rust"}).find("expected \"c\" or"),
            std::string::npos);
  EXPECT_NE(refused({"fcfs", "--kind", "queue"}).find("built-in"), std::string::npos);
  for (const char* name : {"Mine", "9mine", "my-queue", "../mine", "test"})
    EXPECT_NE(refused({name, "--kind", "queue"}).find("NAME"), std::string::npos) << name;
  EXPECT_TRUE(fs::is_empty(folder_)) << "a refusal leaves nothing behind";

  EXPECT_EQ(troupe({"policy", "new", "mine", "--kind", "queue"}, folder_).code, 0);
  const auto before = fs::last_write_time(folder_ / "mine" / "mine.cpp");
  EXPECT_NE(refused({"mine", "--kind", "queue"}).find("nothing is overwritten"), std::string::npos);
  EXPECT_EQ(fs::last_write_time(folder_ / "mine" / "mine.cpp"), before);

  const ProcessEnd json =
      troupe({"policy", "new", "other", "--kind", "step", "--lang", "c", "--json"}, folder_);
  EXPECT_EQ(json.code, 0);
  EXPECT_EQ(Json::parse(json.out).at("files").size(), 4U) << json.out;
}

TEST_F(PolicySdk, EveryScaffoldBuildsAgainstAnInstalledSdkAndPasses) {
  const std::string sdk = (folder_ / "sdk").string();
  shell("cmake --install " TROUPE_BUILD_DIR " --component sdk --prefix " + sdk);
  for (const char* file :
       {"include/troupe/policy_abi.h", "include/troupe/troupe_policy.hpp",
        "lib/cmake/TroupePolicy/TroupePolicyConfig.cmake", "share/doc/troupe-policy/README.md"}) {
    EXPECT_TRUE(fs::exists(fs::path(sdk) / file)) << file;
  }
  std::ofstream list(folder_ / "CMakeLists.txt");
  list << "cmake_minimum_required(VERSION 3.16)\nproject(all LANGUAGES C CXX)\nenable_testing()\n";
  for (const char* kind : {"queue", "prefill_router", "decode_balancer", "prefill_chunker",
                           "admission", "handoff", "step", "overlap"}) {
    for (const char* language : {"c", "c++"}) {
      const std::string name =
          std::string("new_") + kind + (language == std::string("c") ? "_c" : "_cpp");
      const ProcessEnd end =
          troupe({"policy", "new", name, "--kind", kind, "--lang", language}, folder_);
      ASSERT_EQ(end.code, 0) << end.err;
      list << "add_subdirectory(" << name << ")\n";
    }
  }
  list.close();
  const std::string build = (folder_ / "build").string();
  const std::string strict = "'-Wall -Wextra -Wpedantic -Wshadow -Werror'";
  shell("cmake -S " + folder_.string() + " -B " + build + " -DTROUPE_POLICY_DIR=" + sdk +
        " -DTROUPE=" TROUPE_EXECUTABLE " -DCMAKE_C_FLAGS=" + strict +
        " -DCMAKE_CXX_FLAGS=" + strict);
  shell("cmake --build " + build + " -j 2");
  // The test of each, and the suite over each.
  shell("ctest --test-dir " + build + " --output-on-failure -j 2");
  shell("test $(ctest --test-dir " + build + " -N | grep -c 'Test *#') -eq 32");
  // Without the program the suite is left out, with a word that names the way to add it.
  shell("PATH=/usr/bin:/bin cmake -S " + (folder_ / "new_queue_c").string() + " -B " + build +
        "_alone -DTROUPE_POLICY_DIR=" + sdk + " 2>&1 | grep -e '-DTROUPE=/path/to/troupe'");
}

} // namespace
} // namespace troupe::test
