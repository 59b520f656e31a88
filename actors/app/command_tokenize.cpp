// `troupe tokenize`: text to ids, ids to text, chat request to prompt, one JSON object a line.

#include "actors/app/batch_files.hpp"
#include "actors/app/batch_line.hpp"
#include "actors/app/commands.hpp"
#include "actors/app/config_loader.hpp"
#include "actors/app/response_body.hpp"
#include "engine/text/chat_renderer.hpp"
#include "engine/text/detokenizer.hpp"
#include "engine/text/json_value.hpp"
#include "engine/text/request_body.hpp"
#include "engine/text/request_error.hpp"
#include "engine/text/tokenizer.hpp"
#include "schedulers/core/printable.hpp"

#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>

namespace troupe::app {

namespace {

/// A line of output, or the error that stands in its place.
struct Answered {
  std::string text;
  text::Refusal error;
};

Answered refused(const std::string& message) {
  return {{}, text::RequestError{400, message, {}, "invalid_line"}};
}

std::string ids_json(const std::vector<std::int32_t>& ids) {
  std::string out = "[";
  for (const std::int32_t id : ids) {
    if (out.size() > 1) {
      out += ", ";
    }
    out += std::to_string(id);
  }
  return out + "]";
}

class LineAnswerer {
public:
  LineAnswerer(const TokenizeArguments& arguments, const SystemConfig& config,
               std::shared_ptr<const text::Tokenizer> tokenizer,
               std::optional<text::ChatFormat> format)
      : arguments_(arguments), line_bytes_max_(config.limits.line_bytes_max),
        tokenizer_(std::move(tokenizer)), format_(std::move(format)) {
    rules_.strictness = text::Strictness::render;
    rules_.format = format_ ? &*format_ : nullptr;
    rules_.vocab = tokenizer_->vocab_size();
    rules_.thinking_default = config.sampling.thinking;
    rules_.reject_missing_reasoning = config.sampling.reject_missing_reasoning;
  }
  LineAnswerer(const LineAnswerer&) = delete;
  LineAnswerer& operator=(const LineAnswerer&) = delete;

  Answered answer(const InputLine& line) const {
    if (line.is_too_long) {
      return refused(line_too_long_error(line.length, line_bytes_max_).message);
    }
    if (arguments_.chat) {
      return chat(line.text);
    }
    std::string repeated;
    const auto json = text::parse_json(line.text, repeated);
    if (!json || json->object() == nullptr) {
      return refused("the line is no JSON object; expected {\"text\": ...}, or {\"ids\": [...]} "
                     "with --decode");
    }
    if (!repeated.empty()) {
      return {{}, text::repeated_field(repeated)};
    }
    return arguments_.decode ? decode(*json) : encode(*json);
  }

private:
  Answered encode(const text::JsonValue& json) const {
    const text::JsonValue* at = json.find("text");
    if (at == nullptr || at->string() == nullptr) {
      return refused("expected {\"text\": \"...\"}");
    }
    const auto added = arguments_.plain ? text::AddedTokens::ignore : text::AddedTokens::match;
    const auto ids = tokenizer_->encode(*at->string(), added);
    if (!ids) {
      return refused(ids.error().message);
    }
    return {"{\"ids\": " + ids_json(*ids) + "}", {}};
  }

  Answered decode(const text::JsonValue& json) const {
    const text::JsonValue* at = json.find("ids");
    if (at == nullptr || at->array() == nullptr) {
      return refused("expected {\"ids\": [...]}");
    }
    const auto end = static_cast<std::uint64_t>(tokenizer_->vocab_size());
    std::vector<std::int32_t> ids;
    for (const text::JsonValue& id : *at->array()) {
      const std::uint64_t* value = id.natural();
      if (value == nullptr || *value >= end) {
        return refused("found " + printable(text::python_json(id)) +
                       " in ids, expected integers from 0 to " + std::to_string(end - 1));
      }
      ids.push_back(static_cast<std::int32_t>(*value));
    }
    const std::string text = text::decode(tokenizer_, ids, text::SpecialTokens::keep);
    return {"{\"text\": " + json_string(text) + "}", {}};
  }

  Answered chat(const std::string& body) const {
    const auto parsed = text::parse_request_body(text::Endpoint::chat_completions, body, rules_);
    if (!parsed.ok()) {
      return {{}, parsed.error};
    }
    const auto segments = text::render_chat(parsed.body.chat, *format_);
    if (!segments) {
      return refused(segments.error().message);
    }
    const auto ids = tokenizer_->encode(*segments);
    if (!ids) {
      return refused(ids.error().message);
    }
    return {"{\"prompt\": " + json_string(text::prompt_text(*segments)) +
                ", \"ids\": " + ids_json(*ids) + "}",
            {}};
  }

  const TokenizeArguments& arguments_;
  std::int64_t line_bytes_max_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::optional<text::ChatFormat> format_;
  text::BodyRules rules_;
};

} // namespace

int command_tokenize(const TokenizeArguments& arguments) {
  const ConfigOutcome loaded = load_system_config(arguments.common.config, arguments.common.sets);
  if (!loaded.ok()) {
    return fail(kExitRefused, error_lines(loaded.errors));
  }
  const std::string folder = arguments.model.empty() ? loaded.config.model.path : arguments.model;
  if (folder.empty()) {
    return fail(kExitRefused, "tokenize: no model: pass --model DIR, or set model.path");
  }
  const std::filesystem::path path = folder;
  auto tokenizer = text::Tokenizer::load((path / "tokenizer.json").string());
  if (!tokenizer) {
    std::error_code error;
    const bool has_folder = std::filesystem::is_directory(path, error);
    return fail(has_folder ? kExitFailed : kExitRefused, tokenizer.error().message);
  }
  std::optional<text::ChatFormat> format;
  if (arguments.chat) {
    auto read = text::load_chat_format((path / "encoding.json").string());
    if (!read) {
      return fail(exit_code_of(read.error()), read.error().message);
    }
    const Status complete = text::check_markers(
        **tokenizer, *read, (path / "tokenizer.json").string(), (path / "encoding.json").string());
    if (!complete) {
      return fail(exit_code_of(complete.error()), complete.error().message);
    }
    format = std::move(*read);
  }
  const std::string input = arguments.input.empty() ? "-" : arguments.input;
  auto reader = LineReader::open(input, loaded.config.limits.line_bytes_max);
  if (!reader) {
    return fail(kExitRefused, reader.error().message);
  }
  const LineAnswerer answerer(arguments, loaded.config, std::move(*tokenizer), std::move(format));
  int exit_code = kExitDone;
  InputLine line;
  for (;;) {
    const auto state = reader->next(line);
    if (!state) {
      return fail(kExitFailed, state.error().message);
    }
    if (*state == ReadState::end) {
      return exit_code;
    }
    Answered answered = answerer.answer(line);
    if (answered.error) {
      exit_code = kExitPartial;
      answered.error->message.insert(0, "line " + std::to_string(line.number) + ": ");
      answered.text = error_body(*answered.error);
    }
    if (std::puts(answered.text.c_str()) < 0) return kExitFailed; // The end says why.
  }
}

} // namespace troupe::app
