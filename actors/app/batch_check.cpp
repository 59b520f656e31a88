// `troupe batch --check`: every line of the input is read, parsed and rendered as a run would.

#include "actors/app/batch_files.hpp"
#include "actors/app/batch_line.hpp"
#include "actors/app/commands.hpp"
#include "actors/app/config_loader.hpp"
#include "actors/app/job_setup.hpp"
#include "actors/app/response_body.hpp"
#include "actors/app/text_desk.hpp"
#include "schedulers/core/printable.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>
#include <optional>

namespace troupe::app {

namespace {

/// What is wrong with a line.
struct Finding {
  std::int64_t line = 0;
  std::optional<std::string> custom_id;
  std::string code;
  std::string param; ///< Field of the body.
  std::string message;
};

void print(const Finding& finding, const std::string& input, bool is_json) {
  if (is_json) {
    const std::string custom_id = finding.custom_id ? json_string(*finding.custom_id) : "null";
    const std::string param = finding.param.empty() ? "null" : json_string(finding.param);
    fmt::print("{{\"line\":{},\"custom_id\":{},\"code\":{},\"param\":{},\"message\":{}}}\n",
               finding.line, custom_id, json_string(finding.code), param,
               json_string(finding.message));
    return;
  }
  const std::string custom_id =
      finding.custom_id ? " custom_id " + quote(*finding.custom_id, kCustomIdBytesMax) + ":" : "";
  const std::string param = finding.param.empty() ? "" : " " + finding.param + ":";
  fmt::print("{}:{}:{} {}:{} {}\n", input, finding.line, custom_id, finding.code, param,
             message_line(finding.message));
}

/// Checks lines one after the other; without a desk bodies are not looked into.
class LineChecker {
public:
  LineChecker(std::int64_t line_bytes_max, std::unique_ptr<TextDesk> desk)
      : line_bytes_max_(line_bytes_max), desk_(std::move(desk)) {}

  std::optional<Finding> check(const InputLine& line) {
    if (line.is_too_long) {
      return finding(line, line_too_long_error(line.length, line_bytes_max_));
    }
    const BatchLineOutcome outcome = parse_batch_line(line.text);
    const std::string& custom_id = outcome.line.custom_id;
    const std::int64_t first =
        custom_id.empty() ? 0 : duplicates_.first_line_of(custom_id, line.number);
    if (first != 0) {
      return finding(line, duplicate_custom_id_error(custom_id, line.number, first));
    }
    if (outcome.error) {
      return finding(line, *outcome.error);
    }
    return desk_ ? check_body(line, outcome.line) : std::nullopt;
  }

private:
  static Finding finding(const InputLine& line, const LineError& error) {
    return {line.number, error.custom_id, error.code, "", error.message};
  }

  std::optional<Finding> check_body(const InputLine& line, const BatchLine& parsed) {
    const bool is_chat = parsed.endpoint == text::Endpoint::chat_completions;
    const auto outcome = desk_->render({line.number, parsed.custom_id, is_chat, parsed.body, ""});
    desk_->drop(line.number);
    if (!outcome.answer) {
      return std::nullopt;
    }
    // The refusal that a run would write says it all.
    const auto written = nlohmann::json::parse(outcome.answer->text, nullptr, false);
    const auto error = written["response"]["body"]["error"];
    const auto field = [&](const char* name) {
      return error[name].is_string() ? error[name].get<std::string>() : std::string();
    };
    return Finding{line.number, parsed.custom_id, field("code"), field("param"), field("message")};
  }

  std::int64_t line_bytes_max_;
  std::unique_ptr<TextDesk> desk_;
  DuplicateFinder duplicates_;
};

} // namespace

int check_batch_input(const BatchArguments& arguments) {
  const ConfigOutcome loaded = load_system_config(arguments.common.config, arguments.common.sets);
  if (!loaded.ok()) {
    return fail(kExitRefused, error_lines(loaded.errors));
  }
  const std::int64_t line_bytes_max = loaded.config.limits.line_bytes_max;
  std::unique_ptr<TextDesk> desk;
  if (!arguments.model.empty() || !loaded.config.model.path.empty()) {
    auto setup = set_up(arguments.common, arguments.model, arguments.policies);
    if (!setup) {
      return fail(kExitRefused, setup.error().message);
    }
    desk =
        std::make_unique<TextDesk>(std::move(setup->text), [](const char*, const std::string&) {});
  }
  auto reader = LineReader::open(arguments.input, line_bytes_max);
  if (!reader) {
    return fail(kExitRefused, reader.error().message);
  }
  const bool has_desk = desk != nullptr;
  LineChecker checker(line_bytes_max, std::move(desk));
  InputLine line;
  std::int64_t lines = 0;
  std::int64_t bad = 0;
  for (;;) {
    const auto state = reader->next(line);
    if (!state) {
      return fail(kExitRefused, state.error().message);
    }
    if (*state == ReadState::end) {
      break;
    }
    ++lines;
    const auto found = checker.check(line);
    if (!found) {
      continue;
    }
    ++bad;
    print(*found, arguments.input, arguments.common.json);
  }
  if (!arguments.common.quiet) {
    fmt::print(stderr, "troupe: {}: {} lines, {} bad{}\n", arguments.input, lines, bad,
               has_desk ? "" : "; without --model the bodies were not looked into");
  }
  return bad > 0 ? kExitPartial : kExitDone;
}

} // namespace troupe::app
