// The table of public bug reports in tests/README.md: every id once, and no test that is not there.

#include "tests/tidy/rules.hpp"

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
  static const std::regex row(R"re(\| ([A-Z]\d+(?:, [A-Z]\d+)*) \| (.+) \| (.+) \|)re");
  static const std::regex id(R"re([A-Z]\d+)re");
  static const std::regex name(R"re(`([A-Z]\w*\.\w+)`)re");
  const std::set<std::string> tests = test_names(files);
  std::set<std::string> seen;
  std::vector<Violation> out;
  std::int64_t number = 0;
  for (const std::string& line : lines_of(readme.text)) {
    ++number;
    std::smatch found;
    if (!std::regex_match(line, found, row)) continue;
    const std::string row_ids = found[1];
    const std::string where = found[3];
    for (std::sregex_iterator at(row_ids.begin(), row_ids.end(), id), end; at != end; ++at) {
      if (!seen.insert(at->str()).second)
        out.push_back({readme.path, number, "a second row for " + at->str()});
    }
    for (std::sregex_iterator at(where.begin(), where.end(), name), end; at != end; ++at) {
      const std::string test = (*at)[1];
      if (!tests.contains(test)) out.push_back({readme.path, number, "no such test: " + test});
    }
  }
  for (const std::string& wanted : ids) {
    if (!seen.contains(wanted)) out.push_back({readme.path, 0, "no row for " + wanted});
  }
  return out;
}

} // namespace troupe::tidy
