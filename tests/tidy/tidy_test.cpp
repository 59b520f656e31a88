// The whole tree against the rules of the house; rules_test.cpp shows that each rule can fail.

#include "tests/tidy/rules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace troupe::tidy {
namespace {

namespace fs = std::filesystem;

/// Shrinks only: an entry goes when its function is split. None may exceed 100 lines.
const std::vector<LongFunction> kLongFunctions = {};

constexpr std::array<std::string_view, 8> kFolders = {
    "actors", "schedulers", "engine", "kernels", "transport", "configs", "tests", "examples"};

/// Files that the rules read; checkpoints and other data are not among them.
bool is_read(const fs::path& path) {
  constexpr std::array<std::string_view, 7> kEndings = {".cpp", ".hpp",   ".h",   ".md",
                                                        ".txt", ".cmake", ".toml"};
  const std::string ending = path.extension().string();
  return ending.empty() || std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

/// The tree of this checkout.
struct Tree {
  std::vector<SourceFile> files; ///< Ascending by path.
  std::set<std::string> paths;   ///< Files and folders.

  void add(const fs::path& root, const fs::path& path) {
    const std::string name = fs::relative(path, root).generic_string();
    paths.insert(name);
    if (!fs::is_regular_file(path) || !is_read(path)) return;
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    files.push_back({name, text.str()});
  }

  static Tree read() {
    const fs::path root = TROUPE_SOURCE_DIR;
    Tree tree;
    for (const char* name : {"CMakeLists.txt", "README.md", "LICENSE", ".ci/run"}) {
      if (fs::exists(root / name)) tree.add(root, root / name);
    }
    for (const std::string_view folder : kFolders) {
      if (!fs::exists(root / folder)) continue;
      tree.paths.insert(std::string(folder));
      for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder))
        tree.add(root, entry.path());
    }
    std::sort(tree.files.begin(), tree.files.end(),
              [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
    return tree;
  }
};

const Tree& tree() {
  static const Tree read = Tree::read();
  return read;
}

bool is_code(const std::string& path) { return path.ends_with(".cpp") || path.ends_with(".hpp"); }

/// Files whose form is checked: code, CMake lists and scripts.
bool has_form(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  const bool is_script = name.find('.') == std::string::npos && name != "LICENSE";
  return is_code(path) || path.ends_with("CMakeLists.txt") || path.ends_with(".cmake") || is_script;
}

std::string shown(const std::vector<Violation>& violations) {
  std::ostringstream out;
  for (const Violation& one : violations)
    out << one.path << ":" << one.line << ": " << one.message << "\n";
  return out.str();
}

void expect_none(const std::vector<Violation>& violations) {
  EXPECT_TRUE(violations.empty()) << shown(violations);
}

template <class Check>
std::vector<Violation> over_code(Check check) {
  std::vector<Violation> all;
  for (const SourceFile& file : tree().files) {
    if (!is_code(file.path)) continue;
    const std::vector<Violation> found = check(file);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

TEST(Tidy, ReadsTheTree) {
  EXPECT_GT(tree().files.size(), 100U);
  EXPECT_TRUE(tree().paths.contains("schedulers/stage/protocol.hpp"));
}

TEST(Tidy, IncludesKeepToTheWalls) { expect_none(over_code(check_includes)); }

TEST(Tidy, WhatDecidesIsPure) { expect_none(over_code(check_purity)); }

TEST(Tidy, FilesHaveTheirForm) {
  std::vector<Violation> all;
  for (const SourceFile& file : tree().files) {
    if (!has_form(file.path)) continue;
    const std::vector<Violation> found = check_text(file);
    all.insert(all.end(), found.begin(), found.end());
  }
  expect_none(all);
}

TEST(Tidy, FunctionsAreShort) {
  for (const LongFunction& entry : kLongFunctions)
    EXPECT_LE(entry.lines, 100) << entry.path << ": " << entry.name;
  std::size_t functions = 0;
  for (const SourceFile& file : tree().files)
    if (is_code(file.path)) functions += functions_of(file.text).size();
  EXPECT_GT(functions, 500U);
  expect_none(check_functions(tree().files, kLongFunctions));
}

TEST(Tidy, SourcesAreListed) { expect_none(check_cmake_lists(tree().files)); }

TEST(Tidy, HeadersNeedNothingBeforeThem) { expect_none(check_own_headers(tree().files)); }

TEST(Tidy, LinksLeadSomewhere) { expect_none(check_links(tree().files, tree().paths)); }

/// Sections 4a to 4e of the list of public bug reports.
const std::vector<std::string> kCases = {
    "A1",  "A2",  "A3",  "A4",  "A5",  "A8",  "A9",  "A10", "A11", "A12", "A15", "A16", "A18",
    "A19", "A20", "A21", "A22", "A24", "A25", "A27", "A28", "A29", "A31", "A32", "A33", "A34",
    "A36", "A37", "A39", "A40", "A41", "A43", "B2",  "B3",  "B5",  "B6",  "B7",  "B9",  "B10",
    "B11", "B13", "B14", "B15", "B18", "S1",  "S3",  "S4",  "S6",  "S7",  "S8",  "S9",  "S10",
    "S11", "S12", "S13", "S14", "S15", "S17", "R2",  "R3",  "R5",  "R8",  "R10", "R13", "R14",
    "E4",  "E5",  "E6",  "E7",  "E8",  "E10", "E11", "E12", "E13"};

TEST(Tidy, EveryPublicBugReportHasATestOrAReason) {
  const auto readme =
      std::find_if(tree().files.begin(), tree().files.end(),
                   [](const SourceFile& file) { return file.path == "tests/README.md"; });
  ASSERT_NE(readme, tree().files.end());
  expect_none(check_case_table(*readme, kCases, tree().files));
}

TEST(Tidy, TopLevelIsTheHouse) {
  std::vector<std::string> entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(TROUPE_SOURCE_DIR))
    entries.push_back(entry.path().filename().string());
  expect_none(check_top_level(entries));
}

} // namespace
} // namespace troupe::tidy
