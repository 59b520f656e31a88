// Form of a file, and of its functions.

#include "tests/tidy/rules.hpp"

#include <algorithm>
#include <regex>

namespace troupe::tidy {

namespace {

bool is_cpp(const std::string& path) { return path.ends_with(".cpp") || path.ends_with(".hpp"); }

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Characters of a line of UTF-8.
std::int64_t columns(const std::string& line) {
  return std::count_if(line.begin(), line.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
}

void check_header(const SourceFile& file, const std::vector<std::string>& lines,
                  std::vector<Violation>& out) {
  const std::string mark = is_cpp(file.path) ? "//" : "#";
  std::size_t begin = !lines.empty() && lines[0].starts_with("#!") ? 1 : 0;
  std::size_t end = begin;
  while (end < lines.size() && lines[end].starts_with(mark))
    ++end;
  const auto count = static_cast<std::int64_t>(end - begin);
  // The comment of a header speaks for the source that begins with it.
  const std::string own = "#include \"" + file.path.substr(0, file.path.rfind('.')) + ".hpp\"";
  if (file.path.ends_with(".cpp") && !lines.empty() && lines[0] == own) return;
  if (count == 0) {
    out.push_back({file.path, 1, "begins with one to four lines on what the file is for"});
  } else if (is_cpp(file.path) && count > kHeaderCommentLinesMax) {
    out.push_back({file.path, 1,
                   "header comment of " + std::to_string(count) + " lines, expected at most " +
                       std::to_string(kHeaderCommentLinesMax)});
  }
}

void check_lines(const SourceFile& file, const std::vector<std::string>& lines,
                 std::vector<Violation>& out) {
  std::int64_t number = 0;
  for (const std::string& line : lines) {
    ++number;
    if (line.find_first_of("\t\r") != std::string::npos) {
      out.push_back({file.path, number, "tab or carriage return"});
    }
    if (line.ends_with(' ')) out.push_back({file.path, number, "blank at the end"});
    if (columns(line) > kColumnsMax) {
      out.push_back({file.path, number,
                     std::to_string(columns(line)) + " columns, expected at most " +
                         std::to_string(kColumnsMax)});
    }
  }
  if (!file.text.empty() && !file.text.ends_with('\n')) {
    out.push_back({file.path, number, "no newline at the end"});
  }
}

struct Word {
  std::string_view key; ///< Part of every match; looked for first, because it is fast.
  std::regex form;
  std::string_view why;
  bool headers_only = false;
};

/// Looked for in what is left without comments and literals.
const std::vector<Word>& banned_code() {
  static const std::vector<Word> all = {
      {"using", std::regex(R"(\busing\s+namespace\b)"), "names leak out of a header", true},
      {"using", std::regex(R"(\busing\s+namespace\s+(std|caf)\b)"), "names are written in full"},
      {"get_", std::regex(R"((^|[^.>:\w])get_\w+\s*\()"),
       "nouns name what they return, without get_"},
      {"assert", std::regex(R"((^|[^\w])assert\s*\()"), "TROUPE_CHECK, which stays on"},
      {"class", std::regex(R"(^\s*(enum )?class\s+[a-z]\w*\s*[:{])"), "types are CamelCase"},
      {"struct", std::regex(R"(^\s*struct\s+[a-z]\w*\s*[:{])"), "types are CamelCase"},
      {"namespace", std::regex(R"(^\s*namespace\s+\w*[A-Z])"), "namespaces are snake_case"},
      {".await", std::regex(R"(\.await\s*\()"), "a pending await blocks even kill; .then only"},
      {"infinite", std::regex(R"(\bcaf::infinite\b)"), "every wait has a bound"},
  };
  return all;
}

/// Looked for in comments.
const std::vector<Word>& banned_comments() {
  static const std::vector<Word> all = {
      {"TODO", std::regex(R"(\bTODO\b)"), "work left is an issue, not a comment"},
      {"FIXME", std::regex(R"(\bFIXME\b)"), "work left is an issue, not a comment"},
      {"XXX", std::regex(R"(\bXXX\b)"), "work left is an issue, not a comment"},
      {"HACK", std::regex(R"(\bHACK\b)"), "work left is an issue, not a comment"},
      {"ssue", std::regex(R"(\b[Ii]ssues?\s+#?\d+)"), "a comment stands without the issue"},
      {"#", std::regex(R"((^|\s)#\d+\b)"), "a comment stands without the issue"},
  };
  return all;
}

void check_words(const SourceFile& file, const std::string& text, const std::vector<Word>& words,
                 std::vector<Violation>& out) {
  std::int64_t number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    for (const Word& word : words) {
      std::smatch match;
      if (word.headers_only && !file.path.ends_with(".hpp")) continue;
      if (line.find(word.key) == std::string::npos) continue;
      if (!std::regex_search(line, match, word.form)) continue;
      out.push_back({file.path, number, match.str() + ": " + std::string(word.why)});
    }
  }
}

const LongFunction* find_entry(const std::vector<LongFunction>& allowed, const std::string& path,
                               const std::string& name) {
  for (const LongFunction& entry : allowed)
    if (entry.path == path && entry.name == name) return &entry;
  return nullptr;
}

} // namespace

std::vector<Violation> check_text(const SourceFile& file) {
  static const std::regex snake(R"(^[a-z0-9_]+\.(cpp|hpp|proto|h)$)");
  std::vector<Violation> out;
  const std::vector<std::string> lines = lines_of(file.text);
  check_header(file, lines, out);
  check_lines(file, lines, out);
  if (!is_cpp(file.path)) return out;
  if (!std::regex_match(file_name(file.path), snake)) {
    out.push_back({file.path, 0, "file names are snake_case"});
  }
  if (static_cast<std::int64_t>(lines.size()) > kFileLinesMax) {
    out.push_back({file.path, 0,
                   std::to_string(lines.size()) + " lines, expected at most " +
                       std::to_string(kFileLinesMax)});
  }
  const std::string code = without_comments_and_literals(file.text);
  if (file.path.ends_with(".hpp") && code.find("#pragma once") == std::string::npos) {
    out.push_back({file.path, 0, "no #pragma once"});
  }
  check_words(file, code, banned_code(), out);
  check_words(file, comments_only(file.text), banned_comments(), out);
  return out;
}

std::vector<Violation> check_functions(const std::vector<SourceFile>& files,
                                       const std::vector<LongFunction>& allowed) {
  std::vector<Violation> out;
  std::vector<bool> needed(allowed.size(), false);
  for (const SourceFile& file : files) {
    if (!is_cpp(file.path)) continue;
    for (const Function& function : functions_of(file.text)) {
      if (function.lines() <= kFunctionLinesMax) continue;
      const LongFunction* entry = find_entry(allowed, file.path, function.name);
      if (entry != nullptr && function.lines() <= entry->lines) {
        needed[static_cast<std::size_t>(entry - allowed.data())] = function.lines() == entry->lines;
        continue;
      }
      out.push_back({file.path, function.first_line,
                     function.name + ": " + std::to_string(function.lines()) +
                         " lines, expected at most " +
                         std::to_string(entry != nullptr ? entry->lines : kFunctionLinesMax)});
    }
  }
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    if (needed[i]) continue;
    out.push_back(
        {std::string(allowed[i].path), 0,
         std::string(allowed[i].name) + ": has become shorter; lower or remove its entry"});
  }
  return out;
}

} // namespace troupe::tidy
