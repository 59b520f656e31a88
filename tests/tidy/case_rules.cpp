// The table of public bug reports in tests/README.md: every id once, and no test that is not there.

#include "tests/tidy/rules.hpp"

#include <map>
#include <regex>

namespace troupe::tidy {

namespace {

/// "Suite.Name" of every test of the tree.
std::set<std::string> test_names(const std::vector<SourceFile>& files) {
  static const std::regex form(R"re(\bTEST(?:_F|_P)?\((\w+),\s*(\w+)\))re");
  std::set<std::string> names;
  for (const SourceFile& file : files) {
    if (!file.path.starts_with("tests/") || !file.path.ends_with("_test.cpp")) continue;
    for (std::sregex_iterator at(file.text.begin(), file.text.end(), form), end; at != end; ++at)
      names.insert((*at)[1].str() + "." + (*at)[2].str());
  }
  return names;
}

} // namespace

std::vector<Violation> check_case_table(const SourceFile& readme,
                                        const std::vector<std::string>& ids,
                                        const std::vector<SourceFile>& files) {
  static const std::regex row(R"re(\| ([A-Z]\d+) \| (.+) \| (.+) \|)re");
  static const std::regex name(R"re(`(\w+\.\w+)`)re");
  const std::set<std::string> tests = test_names(files);
  std::map<std::string, std::int64_t> missing;
  for (const std::string& id : ids)
    missing.emplace(id, 0);
  std::vector<Violation> out;
  std::int64_t number = 0;
  for (const std::string& line : lines_of(readme.text)) {
    ++number;
    std::smatch found;
    if (!std::regex_match(line, found, row)) continue;
    if (missing.erase(found[1]) == 0)
      out.push_back({readme.path, number, found[1].str() + ": not an id, or its second row"});
    const std::string where = found[3];
    for (std::sregex_iterator at(where.begin(), where.end(), name), end; at != end; ++at) {
      const std::string test = (*at)[1];
      if (!tests.contains(test)) out.push_back({readme.path, number, "no such test: " + test});
    }
  }
  for (const auto& [id, none] : missing)
    out.push_back({readme.path, none, "no row for " + id});
  return out;
}

} // namespace troupe::tidy
