// tokenizer.json → a tokenizer whose ids give back the bytes of any text, or one message.

#include "engine/text/tokenizer.hpp"
#include "tests/fuzz/fuzz_target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace troupe;
  const auto tokenizer = text::Tokenizer::parse(fuzz::text_of(data, size), "tokenizer.json");
  if (!tokenizer.ok()) {
    fuzz::require(tokenizer.error().message.starts_with("tokenizer.json: "),
                  "a message names the file");
    return 0;
  }
  for (const std::string_view sample :
       {std::string_view(), std::string_view("The value of x1 is 1234567890,\n\n  'twas."),
        std::string_view(
            "\xC3\xA4\xE4\xB8\xAD\xF0\x9F\x98\x80 <think> \x01\x7F aaaaaaaaaaaaaaaa")}) {
    for (const auto added : {text::AddedTokens::match, text::AddedTokens::ignore}) {
      const auto ids = (*tokenizer)->encode(sample, added);
      if (!ids.ok()) continue; // An expression that explodes.
      std::string bytes;
      for (const std::int32_t id : *ids) {
        fuzz::require(id >= 0 && id < (*tokenizer)->vocab_size(), "ids lie in the vocabulary");
        bytes += (*tokenizer)->token_bytes(id);
      }
      fuzz::require(bytes == sample, "ids give back the text");
    }
  }
  return 0;
}
