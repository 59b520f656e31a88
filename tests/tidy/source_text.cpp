// A character scanner for literals and comments, and a brace matcher on what is left.

#include "tests/tidy/source_text.hpp"

#include <algorithm>
#include <cctype>
#include <regex>

namespace troupe::tidy {

namespace {

enum class Kind : std::uint8_t { code, comment, literal };

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Whether the quote at `at` separates digits, as in 1'000.
bool separates_digits(std::string_view text, std::size_t at) {
  std::size_t begin = at;
  while (begin > 0 && (is_word(text[begin - 1]) || text[begin - 1] == '\''))
    --begin;
  return begin < at && std::isdigit(static_cast<unsigned char>(text[begin])) != 0;
}

/// End of the raw string whose opening quote is at `quote`.
std::size_t raw_string_end(std::string_view text, std::size_t quote) {
  const std::size_t open = text.find('(', quote);
  if (open == std::string_view::npos) return text.size();
  const std::string close = ")" + std::string(text.substr(quote + 1, open - quote - 1)) + "\"";
  const std::size_t end = text.find(close, open);
  return end == std::string_view::npos ? text.size() : end + close.size();
}

std::size_t quoted_end(std::string_view text, std::size_t quote) {
  std::size_t i = quote + 1;
  while (i < text.size() && text[i] != text[quote] && text[i] != '\n')
    i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

/// End of the comment or literal that begins at `at`, or `at` when none does.
std::size_t token_end(std::string_view text, std::size_t at, Kind& kind) {
  const std::string_view rest = text.substr(at);
  kind = Kind::comment;
  if (rest.starts_with("//")) return std::min(text.find('\n', at), text.size());
  if (rest.starts_with("/*")) {
    const std::size_t end = text.find("*/", at + 2);
    return end == std::string_view::npos ? text.size() : end + 2;
  }
  kind = Kind::literal;
  if (text[at] == '"') {
    const bool is_raw = at > 0 && text[at - 1] == 'R';
    return is_raw ? raw_string_end(text, at) : quoted_end(text, at);
  }
  if (text[at] == '\'' && !separates_digits(text, at)) return quoted_end(text, at);
  kind = Kind::code;
  return at;
}

std::string keep(std::string_view text, Kind wanted) {
  std::string out(text);
  const auto blank = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      if (out[i] != '\n') out[i] = ' ';
  };
  std::size_t i = 0;
  while (i < text.size()) {
    Kind kind = Kind::code;
    const std::size_t end = std::max(token_end(text, i, kind), i + 1);
    if (kind != wanted) blank(i, end);
    i = end;
  }
  return out;
}

/// Blanks preprocessor lines with their continuations: macros may hold unbalanced braces.
std::string without_directives(std::string code) {
  bool in_directive = false;
  std::size_t begin = 0;
  while (begin < code.size()) {
    const std::size_t end = std::min(code.find('\n', begin), code.size());
    const std::size_t first = code.find_first_not_of(" \t", begin);
    in_directive = in_directive || (first < end && code[first] == '#');
    const bool goes_on = end > begin && code[end - 1] == '\\';
    if (in_directive) std::fill(code.begin() + begin, code.begin() + end, ' ');
    in_directive = in_directive && goes_on;
    begin = end + 1;
  }
  return code;
}

std::string trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1));
}

/// What precedes an opening brace outside of functions.
enum class Opens : std::uint8_t { container, function, initialiser, other };

Opens what_opens(const std::string& statement) {
  static const std::regex container(
      R"(^(template\s*<[^]*>\s*)?(inline\s+)?(namespace|class|struct|union|extern)\b[^(]*$)");
  static const std::regex initialiser_list(R"(\)[\s\w]*:[^:])");
  if (std::regex_search(statement, container)) return Opens::container;
  const std::size_t open = statement.find('(');
  if (statement.empty() || open == std::string::npos) return Opens::other;
  const bool is_assigned = statement.find(" = ") < open;
  if (is_assigned && statement.find('[') > open) return Opens::other;
  const bool has_list = std::regex_search(statement, initialiser_list);
  const char last = statement.back();
  if (has_list && (is_word(last) || last == '>')) return Opens::initialiser;
  return Opens::function;
}

std::string function_name(const std::string& statement) {
  static const std::regex test(R"(^TEST(_F|_P)?\s*\([^)]*\))");
  static const std::regex named(
      R"(((?:[\w~]+(?:<[^()]*>)?::)*(?:operator[^(]*(?:\(\))?|[\w~]+))\s*\()");
  std::smatch match;
  if (std::regex_search(statement, match, test)) return match.str();
  if (std::regex_search(statement, match, named)) return match.str(1);
  return "unnamed";
}

/// Follows braces through a file; functions are noted when their body closes.
class BraceMatcher {
public:
  explicit BraceMatcher(std::string code) : code_(std::move(code)) {}

  std::vector<Function> run() {
    for (at_ = 0; at_ < code_.size(); ++at_) {
      const char c = code_[at_];
      if (c == '\n') ++line_;
      if (c == '(') ++parens_;
      if (c == ')') --parens_;
      if (c == '{') open();
      if (c == '}') close();
      if (c == ';' && parens_ == 0) statement_ = at_ + 1;
    }
    return std::move(functions_);
  }

private:
  struct Scope {
    Opens kind = Opens::other;
    std::int64_t parens = 0;
    Function function;
  };

  bool in_function() const {
    return std::any_of(scopes_.begin(), scopes_.end(),
                       [](const Scope& scope) { return scope.kind == Opens::function; });
  }

  void open() {
    Scope scope;
    scope.parens = parens_;
    if (!in_function() && parens_ == 0) {
      static const std::regex access(R"(^(public|private|protected)\s*:\s*)");
      const std::string_view raw = std::string_view(code_).substr(statement_, at_ - statement_);
      const std::string statement = std::regex_replace(trim(raw), access, "");
      scope.kind = what_opens(statement);
      const auto statement_lines = std::count(statement.begin(), statement.end(), '\n');
      const std::size_t last = raw.find_last_not_of(" \t\n");
      const auto blank_lines =
          last == std::string_view::npos ? 0 : std::count(raw.begin() + last, raw.end(), '\n');
      scope.function = {function_name(statement), line_ - statement_lines - blank_lines, 0};
    }
    scopes_.push_back(scope);
    parens_ = 0;
    if (scope.kind != Opens::initialiser) statement_ = at_ + 1;
  }

  void close() {
    if (scopes_.empty()) return;
    Scope scope = scopes_.back();
    scopes_.pop_back();
    parens_ = scope.parens;
    if (scope.kind == Opens::function) {
      scope.function.last_line = line_;
      functions_.push_back(scope.function);
    }
    if (scope.kind != Opens::initialiser) statement_ = at_ + 1;
  }

  std::string code_;
  std::size_t at_ = 0;
  std::size_t statement_ = 0; ///< Begin of the statement that is being read.
  std::int64_t line_ = 1;
  std::int64_t parens_ = 0;
  std::vector<Scope> scopes_;
  std::vector<Function> functions_;
};

} // namespace

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

std::string without_comments_and_literals(std::string_view text) { return keep(text, Kind::code); }

std::string comments_only(std::string_view text) { return keep(text, Kind::comment); }

std::vector<Include> includes_of(std::string_view text) {
  static const std::regex form(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<Include> includes;
  std::int64_t number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    std::smatch match;
    if (std::regex_search(line, match, form)) {
      includes.push_back({match.str(2), match.str(1) == "\"", number});
    }
  }
  return includes;
}

std::vector<Function> functions_of(std::string_view text) {
  return BraceMatcher(without_directives(without_comments_and_literals(text))).run();
}

} // namespace troupe::tidy
