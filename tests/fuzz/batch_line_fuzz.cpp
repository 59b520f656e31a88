// A line of a batch file → a request, or an error line that is JSON itself.

#include "actors/app/batch_line.hpp"
#include "actors/app/response_body.hpp"
#include "engine/text/chat_format.hpp"
#include "engine/text/json_value.hpp"
#include "engine/text/request_body.hpp"
#include "tests/fuzz/fuzz_target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace troupe;
  static const auto format =
      text::load_chat_format(TROUPE_SOURCE_DIR "/tests/vectors/text/encoding.json");
  fuzz::require(format.ok(), "the chat format of the test vectors");
  const auto line = app::parse_batch_line(fuzz::text_of(data, size));
  if (!line.ok()) {
    fuzz::require(!line.error->code.empty() && !line.error->message.empty(), "an error has words");
    const std::string written = app::unreadable_line("batch_1", 1, *line.error);
    fuzz::require(text::parse_json(written).ok(), "an error line is JSON");
    return 0;
  }
  for (const auto strictness : {text::Strictness::run, text::Strictness::render}) {
    text::BodyRules rules;
    rules.strictness = strictness;
    rules.format = &*format;
    rules.vocab = 4096;
    const auto body = text::parse_request_body(line.line.endpoint, line.line.body, rules);
    if (body.ok()) {
      fuzz::require(text::parse_json(body.body.model_json).ok(), "the model is reported as JSON");
      continue;
    }
    const std::string written = app::response_line(
        "batch_1", line.line.custom_id, body.error->status, app::error_body(*body.error));
    fuzz::require(text::parse_json(written).ok(), "a refusal is JSON");
  }
  return 0;
}
