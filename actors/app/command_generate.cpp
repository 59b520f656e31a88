// `troupe generate`: one answer on the terminal as it comes, or a conversation with --chat.
//
// With a chat format beside the checkpoint the prompt is a user message, without one it is text to
// go on from.

#include "actors/app/batch_files.hpp"
#include "actors/app/commands.hpp"
#include "actors/app/job_setup.hpp"
#include "actors/app/local_system.hpp"
#include "actors/app/prompt_job.hpp"
#include "actors/app/response_body.hpp"
#include "actors/app/signals.hpp"
#include "engine/text/utf8.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <unistd.h>
#include <utility>

namespace troupe::app {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kPollMs = 100; ///< A signal ends the wait for a line after this at most.

/// Prints pieces: the answer to standard output, reasoning to standard error unless quiet.
class Printer {
public:
  explicit Printer(const CommonArguments& common)
      : silent_(common.json), quiet_(common.quiet), colour_(isatty(STDERR_FILENO) != 0) {}

  void print(const actors::Piece& piece) {
    if (silent_) return;
    if (piece.kind == "reasoning") {
      if (quiet_) return;
      if (colour_) std::fputs("\033[2m", stderr);
      std::fputs(piece.text.c_str(), stderr);
      if (colour_) std::fputs("\033[0m", stderr);
      std::fflush(stderr);
      reasoning_ = true;
      return;
    }
    if (std::exchange(reasoning_, false)) std::fputs("\n", stderr);
    if (piece.kind == "call") std::fputs("\ncall ", stdout);
    std::fputs(piece.text.c_str(), stdout);
    if (piece.kind == "call") std::fputs(" ", stdout);
    std::fflush(stdout);
  }

  /// @param is_cut  the answer has reached its limit of tokens
  void end(bool is_cut) {
    if (silent_) return;
    if (std::exchange(reasoning_, false)) std::fputs("\n", stderr);
    std::fputs("\n", stdout);
    std::fflush(stdout);
    if (is_cut && !quiet_) std::fputs("troupe: cut at the limit of tokens\n", stderr);
  }

private:
  bool silent_;
  bool quiet_;
  bool colour_;
  bool reasoning_ = false;
};

/// The requests of a conversation, or of one prompt.
class Conversation {
public:
  Conversation(bool is_chat, std::int64_t max_tokens) : chat_(is_chat), max_tokens_(max_tokens) {}

  std::string ask(const std::string& prompt) {
    Json body;
    if (chat_) {
      messages_.push_back({{"role", "user"}, {"content", prompt}});
      body["messages"] = messages_;
    } else {
      body["prompt"] = prompt;
    }
    if (max_tokens_ > 0) body["max_tokens"] = max_tokens_;
    return body.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  void answered(const Json& response) {
    if (!chat_) return;
    const Json& message = response["choices"][0]["message"];
    Json kept{{"role", "assistant"}, {"content", message.value("content", "")}};
    messages_.push_back(std::move(kept));
  }

  /// The last prompt has no answer: the conversation goes on as if it had not been asked.
  void take_back() {
    if (chat_) messages_.erase(messages_.size() - 1);
  }

private:
  bool chat_;
  std::int64_t max_tokens_;
  Json messages_ = Json::array();
};

/// Prints the error of a failed line. 2 when the request was refused, 1 when it failed.
int tell_error(const Json& line) {
  const Json& response = line["response"];
  const Json& body = response.is_null() ? line : response["body"];
  const bool refused = response.is_null() || response.value("status_code", 500) < 500;
  return fail(refused ? kExitRefused : kExitFailed,
              body["error"].value("message", "the request failed"));
}

/// A running system with everything one prompt after the other needs.
class Session {
public:
  Session(JobSetup setup, std::vector<OpenedRank> ranks, const GenerateArguments& arguments)
      : arguments_(arguments), is_chat_(setup.text.format.has_value()), printer_(arguments.common),
        talk_(is_chat_, arguments.max_tokens) {
    SystemOptions options;
    options.config = std::move(setup.config);
    options.config.journal.sync = JournalSync::line;
    options.policies = setup.policies;
    options.registry = setup.registry;
    options.job = job_;
    options.text = std::move(setup.text);
    options.text.job_id = job_->facts().job_id;
    options.text.created_s = job_->facts().start_us / 1'000'000;
    options.tell_pieces = true;
    system_ = std::make_unique<LocalSystem>(std::move(options), std::move(ranks));
  }

  /// 0, or the exit code of a request that was refused (2), failed or was interrupted (1).
  int run(const std::string& prompt) {
    job_->push(is_chat_ ? text::Endpoint::chat_completions : text::Endpoint::completions,
               talk_.ask(prompt));
    LineResult result;
    bool running = true;
    while (!job_->take(result)) {
      if (!running || signals_seen() > 0) return kExitFailed;
      running = system_->receive(
          [](const actors::JobState& state) {
            if (state.code != ErrorCode::ok) fail(kExitFailed, state.message);
          },
          [&](const actors::Piece& piece) { printer_.print(piece); });
    }
    const Json line = Json::parse(result.text);
    if (!result.is_success) {
      talk_.take_back();
      return tell_error(line);
    }
    const Json& body = line["response"]["body"];
    printer_.end(body["choices"][0].value("finish_reason", "") == "length");
    if (arguments_.common.json) std::fputs((body.dump() + "\n").c_str(), stdout);
    talk_.answered(body);
    return kExitDone;
  }

private:
  const GenerateArguments& arguments_;
  bool is_chat_;
  Printer printer_;
  Conversation talk_;
  std::shared_ptr<PromptJob> job_ = std::make_shared<PromptJob>();
  std::unique_ptr<LocalSystem> system_;
};

Status check_prompt(const std::string& prompt) {
  const auto broken = text::invalid_utf8_at(prompt);
  if (!broken) return {};
  return {ErrorCode::bad_argument,
          fmt::format("the prompt is not UTF-8: broken bytes at byte {}", *broken + 1)};
}

/// The next line of the user; `waiting` when a signal came first.
Result<ReadState> read_turn(LineReader& input, InputLine& line) {
  while (signals_seen() == 0) {
    auto state = input.next(line, kPollMs);
    if (!state.ok() || *state != ReadState::waiting) return state;
  }
  return ReadState::waiting;
}

/// Reads lines of the user until end of file. Failures are told and the conversation goes on.
int converse(Session& session, std::int64_t line_bytes_max, bool is_quiet) {
  auto input = LineReader::open("-", line_bytes_max);
  if (!input.ok()) return fail(exit_code_of(input.error()), input.error().message);
  const bool prompts = !is_quiet && isatty(STDIN_FILENO) != 0;
  int exit_code = kExitDone;
  InputLine line;
  for (;;) {
    if (prompts) std::fputs("> ", stderr);
    const auto state = read_turn(*input, line);
    if (!state.ok()) return fail(exit_code_of(state.error()), state.error().message);
    if (*state == ReadState::waiting) return last_signal_exit_code();
    if (*state == ReadState::end) return exit_code;
    Status ok = line.is_too_long
                    ? Status{ErrorCode::bad_argument, "the line is longer than line_bytes_max"}
                    : check_prompt(line.text);
    if (!ok.ok()) fail(kExitPartial, ok.error().message);
    if (!ok.ok() || session.run(line.text) != kExitDone) exit_code = kExitPartial;
    if (signals_seen() > 0) return last_signal_exit_code();
  }
}

} // namespace

int command_generate(const GenerateArguments& arguments) {
  if (arguments.prompt.empty() && !arguments.chat) {
    return fail(kExitRefused, "generate: no prompt: pass one, or --chat for a conversation");
  }
  if (const Status ok = check_prompt(arguments.prompt); !ok.ok()) {
    return fail(kExitRefused, "generate: " + ok.error().message);
  }
  auto setup = set_up(arguments.common, arguments.model, arguments.policies);
  if (!setup.ok()) return fail(exit_code_of(setup.error()), setup.error().message);
  auto ranks = open_ranks(setup->config);
  if (!ranks.ok())
    return fail(exit_code_of(ranks.error()), setup->places.placed(ranks.error()).message);
  const std::int64_t line_bytes_max = setup->config.limits.line_bytes_max;
  watch_signals();
  Session session(std::move(*setup), std::move(*ranks), arguments);
  const int exit_code = arguments.prompt.empty() ? kExitDone : session.run(arguments.prompt);
  if (signals_seen() > 0) return last_signal_exit_code();
  if (exit_code != kExitDone || !arguments.chat) return exit_code;
  return converse(session, line_bytes_max, arguments.common.quiet);
}

} // namespace troupe::app
