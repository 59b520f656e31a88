// Runs the commands of pages that show sessions as they stand there, in order, in one shell, and
// looks for what the page says they print: examples/policy_tutorial.md, and the README of the
// example in C, which is copied away, built against the installed package only, shadowed, promoted
// and rolled back while a batch runs.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace troupe::test {
namespace {

namespace fs = std::filesystem;

/// Commands, and lines that their output must hold in this order.
struct Block {
  std::string commands;
  std::vector<std::string> expected;
};

/// @param is_live  also those that talk to a running system
std::vector<Block> blocks_of(const fs::path& file, bool is_live) {
  std::ifstream in(file);
  std::vector<Block> blocks;
  std::string fence;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("```", 0) == 0) {
      if (!fence.empty() || (line == "```sh live" && !is_live)) {
        if (fence.empty()) break; // What follows rests on it.
        fence.clear();
        continue;
      }
      fence = line.substr(3, 2);
      if (fence == "sh") blocks.emplace_back();
    } else if (fence == "sh") {
      blocks.back().commands += line + "\n";
    } else if (fence == "te") {
      blocks.back().expected.push_back(line);
    }
  }
  return blocks;
}

/// One script: each block's output goes to a file of its own, the first failure ends it.
std::string script_of(const std::vector<Block>& blocks, const fs::path& folder) {
  std::string script =
      "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\nexport HOME=" +
      folder.string() + "\ncd \"$HOME/clone\"\n";
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    script += "exec >" + (folder / ("out." + std::to_string(i))).string() + " 2>&1\n";
    script += blocks[i].commands;
  }
  return script;
}

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// @param page  in examples/   @param blocks_min  of commands that it has
void run_page(const std::string& page, std::size_t blocks_min) {
  // The socket of a running system and the commands for it come together.
  const bool is_live = std::system(TROUPE_EXECUTABLE " help policy | grep -q swap") == 0;
  const std::vector<Block> blocks =
      blocks_of(fs::path(TROUPE_SOURCE_DIR) / "examples" / page, is_live);
  ASSERT_GE(blocks.size(), blocks_min);
  const fs::path folder =
      fs::temp_directory_path() / ("policy_session_" + std::to_string(::getpid()));
  fs::create_directories(folder / "clone");
  fs::create_directory_symlink(TROUPE_BUILD_DIR, folder / "clone" / "build");
  for (const char* name : {"examples", "configs"})
    fs::create_directory_symlink(fs::path(TROUPE_SOURCE_DIR) / name, folder / "clone" / name);
  std::ofstream(folder / "script") << script_of(blocks, folder);

  const int status = std::system(("timeout 300 bash " + (folder / "script").string()).c_str());
  std::string last; // What the block printed that was reached last.
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::string out = text_of(folder / ("out." + std::to_string(i)));
    if (!out.empty()) last = blocks[i].commands + "printed\n" + out;
    std::size_t at = 0;
    for (const std::string& line : blocks[i].expected) {
      const std::size_t found = out.find(line, at);
      EXPECT_NE(found, std::string::npos)
          << "after\n"
          << blocks[i].commands << "there is no \"" << line << "\" in\n"
          << out;
      if (found != std::string::npos) at = found + line.size();
    }
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status " << status << "\n"
                                                             << last;
  fs::remove_all(folder);
}

TEST(PolicyTutorial, EveryCommandDoesWhatThePageSays) { run_page("policy_tutorial.md", 6); }

TEST(PolicyPluginC, ACopyIsBuiltTestedShadowedPromotedAndRolledBackInARunningBatch) {
  run_page("policy_plugin_c/README.md", 5);
}

} // namespace
} // namespace troupe::test
