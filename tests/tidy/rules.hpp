// The rules of the house that a program can check. Each takes files and returns what breaks it.

#pragma once

#include "tests/tidy/source_text.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::tidy {

struct Violation {
  std::string path;
  std::int64_t line = 0; ///< 0: the file as a whole.
  std::string message;   ///< What was found and what is expected.
};

inline constexpr std::int64_t kFileLinesMax = 600;
inline constexpr std::int64_t kFunctionLinesMax = 70;
inline constexpr std::int64_t kColumnsMax = 100;
inline constexpr std::int64_t kHeaderCommentLinesMax = 6;

/// Walls between rooms, and where each library may be seen.
std::vector<Violation> check_includes(const SourceFile& file);

/// A source includes the header of its name before anything else: that shows that the header needs
/// nothing before it. Tests are no interfaces.
std::vector<Violation> check_own_headers(const std::vector<SourceFile>& files);

/// Clocks, chance, threads, files, hash order and floating point where decisions are made.
std::vector<Violation> check_purity(const SourceFile& file);

/// Purpose comment, `#pragma once`, length, columns, blanks, words that must not stay, names.
std::vector<Violation> check_text(const SourceFile& file);

/// A function that may be longer than kFunctionLinesMax, and by how much. The list only shrinks.
struct LongFunction {
  std::string_view path;
  std::string_view name;
  std::int64_t lines = 0;
};

/// Functions that are too long, and entries of `allowed` that are no longer needed as they stand.
std::vector<Violation> check_functions(const std::vector<SourceFile>& files,
                                       const std::vector<LongFunction>& allowed);

/// Every source and header of a room stands in a CMakeLists.txt of its folder or one above it, and
/// no list is globbed.
std::vector<Violation> check_cmake_lists(const std::vector<SourceFile>& files);

/// Relative links of README files lead to an existing path.
std::vector<Violation> check_links(const std::vector<SourceFile>& files,
                                   const std::set<std::string>& paths);

/// Each of `ids` has one row in the table of public bug reports, and the tests that its last column
/// names (`Suite.Name`) exist.
std::vector<Violation> check_case_table(const SourceFile& readme,
                                        const std::vector<std::string>& ids,
                                        const std::vector<SourceFile>& files);

/// The top level of the tree is exactly what the house allows.
std::vector<Violation> check_top_level(const std::vector<std::string>& entries);

} // namespace troupe::tidy
