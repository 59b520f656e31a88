// Cuts text into the pieces that BPE merges within, by a checkpoint's own regular expressions.

#pragma once

#include "schedulers/core/result.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

/// A sequence of isolated splits: each regular expression cuts the pieces of the one before into
/// its matches and what lies between them.
///
///   Thread   immutable; each thread matches with data of its own
class PreTokenizer {
public:
  /// Compiles the expressions, to machine code where that is available.
  ///
  /// Errors: bad_checkpoint with the number of the expression and the offset in it.
  static Result<PreTokenizer> compile(const std::vector<std::string>& expressions);

  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  /// Appends the pieces of `text` in order; joined they are `text`, none is empty.
  ///
  /// @pre text is UTF-8
  /// Errors: invalid_request when an expression gives up on this text.
  Status split(std::string_view text, std::vector<std::string_view>& pieces) const;

private:
  struct Expression;
  PreTokenizer();
  std::vector<std::unique_ptr<Expression>> expressions_;
};

} // namespace troupe::text
