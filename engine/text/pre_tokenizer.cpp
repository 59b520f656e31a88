// The one place that includes PCRE2, whose functions take 8-bit code units here.

#define PCRE2_CODE_UNIT_WIDTH 8

#include "engine/text/pre_tokenizer.hpp"

#include <pcre2.h>

#include <array>
#include <cstdint>

namespace troupe::text {
namespace {

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

  Matcher() { pcre2_jit_stack_assign(context.get(), nullptr, stack.get()); }
};

Matcher& matcher_of_thread() {
  thread_local Matcher matcher;
  return matcher;
}

/// PCRE2's \s has one character (U+180E) more than Unicode's White_Space, which the original
/// engine's has.
std::string with_unicode_space(std::string_view expression) {
  std::string out;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    if (expression[i] != '\\' || i + 1 == expression.size()) {
      out += expression[i];
      continue;
    }
    ++i;
    if (expression[i] == 's') {
      out += "\\p{White_Space}";
    } else if (expression[i] == 'S') {
      out += "\\P{White_Space}";
    } else {
      out += '\\';
      out += expression[i];
    }
  }
  return out;
}

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

} // namespace

struct PreTokenizer::Expression {
  Owned<pcre2_code> code;

  /// Appends the matches in `text` and what lies between them.
  Status split(std::string_view text, std::vector<std::string_view>& pieces) const;
};

Status PreTokenizer::Expression::split(std::string_view text,
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
      return {ErrorCode::invalid_request, "the text cannot be split into words: " +
                                              message_of(found) + " at byte " + std::to_string(at)};
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
    const std::string expression = with_unicode_space(expressions[i]);
    int error = 0;
    PCRE2_SIZE offset = 0;
    Owned<pcre2_code> code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()),
                                         expression.size(), PCRE2_UTF | PCRE2_UCP, &error, &offset,
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
      if (Status status = expression->split(piece, next); !status) return status;
    }
    current.swap(next);
  }
  pieces.insert(pieces.end(), current.begin(), current.end());
  return {};
}

} // namespace troupe::text
