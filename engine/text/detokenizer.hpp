// Token ids → text, one stream: never splits a character, so every piece can be shown at once.

#pragma once

#include "engine/text/tokenizer.hpp"
#include "engine/text/utf8.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace troupe::text {

/// Whether special tokens (Tokenizer::is_special) leave their spelling in the text.
enum class SpecialTokens : std::uint8_t { keep, skip };

/// Incremental detokeniser of one token stream. Any cut of the ids gives the same text.
///
///   Errors   none: an id without a token gives nothing, broken bytes give U+FFFD
///   Owns     a share of the tokenizer
class Detokenizer {
public:
  Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, SpecialTokens special);

  /// Text that these ids complete; what is only part of a character waits.
  std::string push(std::span<const std::int32_t> ids);
  std::string push(std::int32_t id) { return push(std::span<const std::int32_t>(&id, 1)); }

  /// Ends the stream: U+FFFD for a character that never became whole, else nothing.
  std::string flush();

private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  SpecialTokens special_;
  Utf8Stream utf8_;
};

/// Text of all `ids` at once.
std::string decode(const std::shared_ptr<const Tokenizer>& tokenizer,
                   std::span<const std::int32_t> ids, SpecialTokens special);

} // namespace troupe::text
