// The one place that includes PCRE2, whose functions take 8-bit code units here.

#define PCRE2_CODE_UNIT_WIDTH 8

#include "engine/text/pre_tokenizer.hpp"

#include "engine/text/unicode_additions.hpp"

#include <pcre2.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <span>

namespace troupe::text {
namespace {

// \C would cut characters, and pieces must stay UTF-8.
constexpr std::uint32_t kCompileOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;

// Far above what a published expression needs on any text; an expression that explodes ends here
// after a fraction of a second, and the text is refused.
constexpr std::uint32_t kMatchStepsMax = 10'000'000;
constexpr std::uint32_t kMatchHeapKibMax = 64 << 10;

constexpr std::size_t kJitStackBytesMin = std::size_t{32} << 10;
constexpr std::size_t kJitStackBytesMax = std::size_t{8} << 20;

struct Deleter {
  void operator()(pcre2_code* code) const noexcept { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const noexcept { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const noexcept {
    pcre2_match_context_free(context);
  }
  void operator()(pcre2_jit_stack* stack) const noexcept { pcre2_jit_stack_free(stack); }
};
template <class T>
using Owned = std::unique_ptr<T, Deleter>;

/// What one thread needs to match; shared by all expressions.
struct Matcher {
  Owned<pcre2_match_data> data{pcre2_match_data_create(1, nullptr)};
  Owned<pcre2_match_context> context{pcre2_match_context_create(nullptr)};
  Owned<pcre2_jit_stack> stack{
      pcre2_jit_stack_create(kJitStackBytesMin, kJitStackBytesMax, nullptr)};

  Matcher() {
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
    pcre2_set_match_limit(context.get(), kMatchStepsMax);
    pcre2_set_heap_limit(context.get(), kMatchHeapKibMax);
  }
};

Matcher& matcher_of_thread() {
  thread_local Matcher matcher;
  return matcher;
}

/// Ranges that a general category gained, as members of a character class.
std::string additions(char category) {
  std::span<const CodeRange> ranges;
  switch (category) {
  case 'L':
    ranges = kLettersSince15;
    break;
  case 'M':
    ranges = kMarksSince15;
    break;
  case 'N':
    ranges = kNumbersSince15;
    break;
  case 'P':
    ranges = kPunctuationSince15;
    break;
  case 'S':
    ranges = kSymbolsSince15;
    break;
  default:
    break;
  }
  std::string out;
  for (const CodeRange& range : ranges) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "\\x{%X}-\\x{%X}", range.first, range.last);
    out += text.data();
  }
  return out;
}

/// Rewrites an expression so that PCRE2 sees the characters that the original engine sees.
///
/// Its \s has one character (U+180E) more than Unicode's White_Space; its categories L, M, N, P and
/// S lack what later versions of Unicode added.
std::string translated(std::string_view expression) {
  std::string out;
  bool in_class = false;
  std::size_t i = 0;
  while (i < expression.size()) {
    const std::string_view rest = expression.substr(i);
    const bool category = rest.size() >= 5 && rest.starts_with("\\p{") && rest[4] == '}';
    const std::string added = category ? additions(rest[3]) : std::string();
    if (!added.empty()) {
      if (!in_class) out += '[';
      out.append(rest.substr(0, 5)).append(added);
      if (!in_class) out += ']';
      i += 5;
    } else if (rest.starts_with("\\s") || rest.starts_with("\\S")) {
      out += rest[1] == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
      i += 2;
    } else {
      const std::size_t bytes = rest[0] == '\\' && rest.size() > 1 ? 2 : 1;
      if (bytes == 1 && rest[0] == '[') in_class = true;
      if (bytes == 1 && rest[0] == ']') in_class = false;
      out += rest.substr(0, bytes);
      i += bytes;
    }
  }
  return out;
}

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

/// Which limit the matching of one word met, by PCRE2's code; empty when it was none.
std::string limit_met(int code) {
  switch (code) {
  case PCRE2_ERROR_MATCHLIMIT:
    return std::to_string(kMatchStepsMax) + " steps of matching";
  case PCRE2_ERROR_HEAPLIMIT:
    return std::to_string(kMatchHeapKibMax) + " KiB of memory";
  case PCRE2_ERROR_JIT_STACKLIMIT:
    return std::to_string(kJitStackBytesMax >> 10) + " KiB of stack";
  default:
    return {};
  }
}

/// Why the word that begins at byte `at` of a text of `size` bytes was not found.
Error given_up(int code, std::size_t at, std::size_t size) {
  const std::string limit = limit_met(code);
  const std::string place =
      "the word that begins at byte " + std::to_string(at) + " of " + std::to_string(size);
  if (limit.empty()) {
    return {ErrorCode::invalid_request,
            "the text cannot be split into words: " + message_of(code) + " in " + place};
  }
  return {ErrorCode::invalid_request,
          "the text cannot be split into words: " + place + " takes more than " + limit +
              ", the limit for one word; a run of millions of spaces or other characters of one "
              "kind does this: shorten it, or put other text between"};
}

} // namespace

struct PreTokenizer::Expression {
  Owned<pcre2_code> code;

  /// Appends the matches in `text`, a part of `whole`, and what lies between them.
  Status split(std::string_view text, std::string_view whole,
               std::vector<std::string_view>& pieces) const;
};

Status PreTokenizer::Expression::split(std::string_view text, std::string_view whole,
                                       std::vector<std::string_view>& pieces) const {
  Matcher& matcher = matcher_of_thread();
  std::size_t from = 0; // of the piece that is not cut off yet
  std::size_t at = 0;
  while (at < text.size()) {
    const int found =
        pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                    PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, matcher.data.get(), matcher.context.get());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      return given_up(found, static_cast<std::size_t>(text.data() - whole.data()) + at,
                      whole.size());
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(matcher.data.get());
    if (range[0] > from) pieces.push_back(text.substr(from, range[0] - from));
    pieces.push_back(text.substr(range[0], range[1] - range[0]));
    from = range[1];
    at = range[1];
  }
  if (from < text.size()) pieces.push_back(text.substr(from));
  return {};
}

PreTokenizer::PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::compile(const std::vector<std::string>& expressions) {
  PreTokenizer result;
  for (std::size_t i = 0; i < expressions.size(); ++i) {
    const std::string expression = translated(expressions[i]);
    int error = 0;
    PCRE2_SIZE offset = 0;
    Owned<pcre2_code> code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()),
                                         expression.size(), kCompileOptions, &error, &offset,
                                         nullptr));
    if (!code) {
      return {ErrorCode::bad_checkpoint, "expression " + std::to_string(i) +
                                             " of the pre-tokeniser: " + message_of(error) +
                                             " at offset " + std::to_string(offset)};
    }
    // Without a JIT on this machine the interpreter matches the same.
    static_cast<void>(pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE));
    result.expressions_.push_back(std::make_unique<Expression>(Expression{std::move(code)}));
  }
  return result;
}

Status PreTokenizer::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  if (text.empty()) return {};
  std::vector<std::string_view> current{text};
  std::vector<std::string_view> next;
  for (const auto& expression : expressions_) {
    next.clear();
    for (const std::string_view piece : current) {
      if (Status status = expression->split(piece, text, next); !status) return status;
    }
    current.swap(next);
  }
  pieces.insert(pieces.end(), current.begin(), current.end());
  return {};
}

} // namespace troupe::text
