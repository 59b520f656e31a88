// A chat request body → the prompt and its ids, or a refusal.

#include "engine/text/chat_format.hpp"
#include "engine/text/chat_renderer.hpp"
#include "engine/text/request_body.hpp"
#include "engine/text/tokenizer.hpp"
#include "engine/text/utf8.hpp"
#include "tests/fuzz/fuzz_target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace troupe;
  static const std::string folder = TROUPE_SOURCE_DIR "/examples/models/nano-v4.1/";
  static const auto format = text::load_chat_format(folder + "encoding.json");
  static const auto tokenizer = text::Tokenizer::load(folder + "tokenizer.json");
  fuzz::require(format.ok() && tokenizer.ok(), "the bundled model");
  text::BodyRules rules;
  rules.strictness = text::Strictness::render;
  rules.format = &*format;
  const auto parsed =
      text::parse_request_body(text::Endpoint::chat_completions, fuzz::text_of(data, size), rules);
  if (!parsed.ok()) {
    fuzz::require(!parsed.error->message.empty() && !parsed.error->code.empty(),
                  "an error has words");
    return 0;
  }
  const auto segments = text::render_chat(parsed.body.chat, *format);
  if (!segments.ok()) return 0;
  const std::string prompt = text::prompt_text(*segments);
  fuzz::require(!text::invalid_utf8_at(prompt), "a prompt is UTF-8");
  const auto ids = (*tokenizer)->encode(*segments);
  fuzz::require(ids.ok(), "a prompt has ids");
  std::string bytes;
  for (const std::int32_t id : *ids)
    bytes += (*tokenizer)->token_bytes(id);
  fuzz::require(bytes == prompt, "ids give back the prompt");
  return 0;
}
