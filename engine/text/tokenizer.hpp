// Byte-level BPE from a checkpoint's tokenizer.json: text ↔ token ids.
//
// Added tokens are matched only where the caller says so: chat text never matches one, only what
// the renderer itself writes does. A user who types "<think>" gets ordinary text tokens.

#pragma once

#include "schedulers/core/result.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

/// A stretch of a rendered prompt.
struct PromptSegment {
  std::string text;
  bool is_special = false; ///< Added tokens are matched inside it.

  bool operator==(const PromptSegment&) const = default;
};

/// Whether encode() looks for added tokens in its text.
enum class AddedTokens : std::uint8_t { match, ignore };

/// One tokenizer, immutable after load.
///
///   Cost     encode is O(n log n) in the longest piece; about 1 µs per token for usual text
///   Thread   any number of threads at once; each keeps its own match data
///   Errors   text that is not UTF-8: ErrorCode::parse_error with the offset
class Tokenizer {
public:
  /// Reads `path`, a Hugging Face tokenizer.json of type BPE with byte-level pre-tokenisation.
  ///
  /// Errors name the file and the key: io_error, parse_error (not JSON), bad_checkpoint (a key is
  /// missing or wrong), unsupported (another kind of tokenizer).
  static Result<std::shared_ptr<const Tokenizer>> load(const std::string& path);

  /// The same from memory; `name` stands for the file in messages.
  static Result<std::shared_ptr<const Tokenizer>> parse(std::string_view json,
                                                        const std::string& name);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Ids of `text`. Nothing is put before or after it.
  Result<std::vector<std::int32_t>> encode(std::string_view text, AddedTokens added) const;

  /// Ids of a prompt. Neighbouring text is encoded as one, whatever its segments; added tokens are
  /// matched inside special segments only.
  Result<std::vector<std::int32_t>> encode(std::span<const PromptSegment> segments) const;

  /// Bytes that `id` stands for; empty for an id without a token. Valid as long as the tokenizer.
  std::string_view token_bytes(std::int32_t id) const noexcept;

  /// Id of the added token spelled `text`, else of the vocabulary entry with these bytes.
  std::optional<std::int32_t> id_of(std::string_view text) const;

  /// True for added tokens that are marked special: skip-special decoding leaves them out.
  bool is_special(std::int32_t id) const noexcept;

  /// True for every added token, marked special or not.
  bool is_added(std::int32_t id) const noexcept;

  /// Highest id + 1. A model's embedding may have more rows.
  std::int64_t vocab_size() const noexcept;

private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

} // namespace troupe::text
