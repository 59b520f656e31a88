// Just enough reading of C++ for style checks: text without comments and literals, its lines, its
// includes and its functions. Not a parser; it relies on the layout that clang-format gives.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::tidy {

/// A file of the tree.
struct SourceFile {
  std::string path; ///< Relative to the root of the tree, with '/'.
  std::string text;
};

/// The lines of a text without their ends.
std::vector<std::string> lines_of(std::string_view text);

/// The text with comments, literals and their quotes replaced by blanks; lines stay where they are.
std::string without_comments_and_literals(std::string_view text);

/// The text with everything but comments replaced by blanks.
std::string comments_only(std::string_view text);

struct Include {
  std::string target; ///< Without quotes or brackets.
  bool is_quoted = false;
  std::int64_t line = 0;
};

std::vector<Include> includes_of(std::string_view text);

/// A definition with a body; lambdas and local classes belong to the function around them.
struct Function {
  std::string name; ///< As written before the parameters; `TEST(A, B)` for a test.
  std::int64_t first_line = 0;
  std::int64_t last_line = 0;

  std::int64_t lines() const noexcept { return last_line - first_line + 1; }
};

std::vector<Function> functions_of(std::string_view text);

} // namespace troupe::tidy
