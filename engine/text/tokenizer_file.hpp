// tokenizer.json as plain, checked data: byte-level BPE and nothing else.
//
// The file spells bytes as printable characters (GPT-2's table); here they are bytes again.

#pragma once

#include "schedulers/core/result.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::text {

/// Ids from here on are refused: a table is as long as its highest id.
inline constexpr std::int64_t kTokenIdsMax = std::int64_t{1} << 24;

/// An entry of `added_tokens`.
struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool special = false;
};

/// What a tokenizer is built from.
struct TokenizerFile {
  std::vector<std::pair<std::string, std::int32_t>> vocab; ///< Bytes → id.
  std::vector<std::pair<std::string, std::string>> merges; ///< Bytes, first rank first.
  std::vector<AddedToken> added;
  std::vector<std::string> splits; ///< Regular expressions of the pre-tokeniser, in order.
  bool ignore_merges = false;      ///< A piece that is a vocabulary entry is not merged.
};

/// Reads tokenizer.json. Errors begin with `name` and the key: parse_error, bad_checkpoint (missing
/// or wrong), unsupported (normalisers, other models, other pre-tokenisers).
Result<TokenizerFile> parse_tokenizer_file(std::string_view json, const std::string& name);

} // namespace troupe::text
