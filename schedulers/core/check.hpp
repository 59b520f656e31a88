// Assertions against our own bugs: TROUPE_CHECK stays on in production, TROUPE_DCHECK in debug.
//
// Never used on input from outside: that is a Result.

#pragma once

namespace troupe::detail {

/// Prints file, line, expression and text to standard error and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* expression,
                               const char* text) noexcept;

} // namespace troupe::detail

#define TROUPE_CHECK(expression, text)                                                             \
  (static_cast<bool>(expression)                                                                   \
       ? static_cast<void>(0)                                                                      \
       : ::troupe::detail::check_failed(__FILE__, __LINE__, #expression, text))

#ifdef NDEBUG
#define TROUPE_DCHECK(expression, text) static_cast<void>(0)
#else
#define TROUPE_DCHECK(expression, text) TROUPE_CHECK(expression, text)
#endif
