// Rules about the tree as a whole.

#include "tests/tidy/rules.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <regex>

namespace troupe::tidy {

namespace {

constexpr std::array<std::string_view, 11> kTopLevel = {
    "CMakeLists.txt", "README.md", "LICENSE", "actors", "schedulers", "engine",
    "kernels",        "transport", "configs", "tests",  "examples"};

/// Hidden entries, and what a developer's machine makes beside them.
constexpr std::array<std::string_view, 6> kToolFiles = {
    ".ci", ".clang-format", ".clang-tidy", ".gitignore", ".git", ".cache"};

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& list, std::string_view entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

/// Whether `name` stands in `list` as a whole word, or below the root of the tree.
bool lists(const std::string& list, const std::string& name) {
  constexpr std::string_view kEnds = " \t\n()\"";
  constexpr std::string_view kRoot = "${CMAKE_SOURCE_DIR}/";
  for (std::size_t at = list.find(name); at != std::string::npos; at = list.find(name, at + 1)) {
    const bool begins = at == 0 || kEnds.find(list[at - 1]) != std::string_view::npos ||
                        std::string_view(list).substr(0, at).ends_with(kRoot);
    const std::size_t end = at + name.size();
    if (begins && (end == list.size() || kEnds.find(list[end]) != std::string_view::npos)) {
      return true;
    }
  }
  return false;
}

/// Resolves "." and ".." of a relative path.
std::string normalised(const std::string& path) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : path + "/") {
    if (c != '/') {
      part += c;
      continue;
    }
    if (part == ".." && !parts.empty())
      parts.pop_back();
    else if (!part.empty() && part != ".")
      parts.push_back(part);
    part.clear();
  }
  std::string out;
  for (const std::string& one : parts)
    out += (out.empty() ? "" : "/") + one;
  return out;
}

} // namespace

std::vector<Violation> check_cmake_lists(const std::vector<SourceFile>& files) {
  std::map<std::string, std::string> lists_by_folder;
  std::vector<Violation> out;
  for (const SourceFile& file : files) {
    if (!file.path.ends_with("CMakeLists.txt")) continue;
    lists_by_folder[folder_of(file.path)] = file.text;
    std::int64_t number = 0;
    for (const std::string& line : lines_of(file.text)) {
      ++number;
      if (line.find("GLOB") == std::string::npos) continue;
      out.push_back({file.path, number, "GLOB: sources are listed one by one"});
    }
  }
  for (const SourceFile& file : files) {
    if (!file.path.ends_with(".cpp") && !file.path.ends_with(".hpp")) continue;
    // Headers of tests and examples are no interface of a room.
    const bool is_room = !file.path.starts_with("tests/") && !file.path.starts_with("examples/");
    if (file.path.ends_with(".hpp") && !is_room) continue;
    // They need compiler flags that only the sources of that path get.
    if (file.path.starts_with("kernels/cpu/avx") && file.path.ends_with(".hpp")) continue;
    bool is_listed = std::any_of(lists_by_folder.begin(), lists_by_folder.end(),
                                 [&](const auto& one) { return lists(one.second, file.path); });
    std::string below = file.path.substr(file.path.rfind('/') + 1);
    for (std::string folder = folder_of(file.path); !is_listed; folder = folder_of(folder)) {
      const auto list = lists_by_folder.find(folder);
      is_listed = list != lists_by_folder.end() && lists(list->second, below);
      if (folder.empty()) break;
      below = folder.substr(folder.rfind('/') + 1) + "/" + below;
    }
    if (!is_listed) out.push_back({file.path, 0, "stands in no CMakeLists.txt"});
  }
  return out;
}

std::vector<Violation> check_links(const std::vector<SourceFile>& files,
                                   const std::set<std::string>& paths) {
  static const std::regex link(R"(\]\(([^)#\s]+)(#[^)]*)?\))");
  std::vector<Violation> out;
  for (const SourceFile& file : files) {
    if (!file.path.ends_with(".md")) continue;
    std::int64_t number = 0;
    for (const std::string& line : lines_of(file.text)) {
      ++number;
      for (std::sregex_iterator it(line.begin(), line.end(), link), end; it != end; ++it) {
        const std::string target = (*it).str(1);
        if (target.find("://") != std::string::npos) continue;
        const std::string path = normalised(folder_of(file.path) + "/" + target);
        if (path.empty() || paths.contains(path)) continue;
        out.push_back({file.path, number, target + ": the link leads nowhere"});
      }
    }
  }
  return out;
}

std::vector<Violation> check_top_level(const std::vector<std::string>& entries) {
  std::vector<Violation> out;
  for (const std::string& entry : entries) {
    const bool is_made = entry == "build" || entry.starts_with("build-");
    if (contains(kTopLevel, entry) || contains(kToolFiles, entry) || is_made) continue;
    out.push_back({entry, 0, "does not belong to the top level"});
  }
  for (const std::string_view wanted : kTopLevel) {
    if (std::find(entries.begin(), entries.end(), wanted) != entries.end()) continue;
    out.push_back({std::string(wanted), 0, "is missing at the top level"});
  }
  return out;
}

} // namespace troupe::tidy
