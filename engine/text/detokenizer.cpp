#include "engine/text/detokenizer.hpp"

namespace troupe::text {

Detokenizer::Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, SpecialTokens special)
    : tokenizer_(std::move(tokenizer)), special_(special) {}

std::string Detokenizer::push(std::span<const std::int32_t> ids) {
  std::string out;
  for (const std::int32_t id : ids) {
    if (special_ == SpecialTokens::skip && tokenizer_->is_special(id)) continue;
    utf8_.push(tokenizer_->token_bytes(id), out);
  }
  return out;
}

std::string Detokenizer::flush() {
  std::string out;
  utf8_.flush(out);
  return out;
}

std::string decode(const std::shared_ptr<const Tokenizer>& tokenizer,
                   std::span<const std::int32_t> ids, SpecialTokens special) {
  Detokenizer stream(tokenizer, special);
  std::string out = stream.push(ids);
  return out + stream.flush();
}

} // namespace troupe::text
