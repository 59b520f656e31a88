// `troupe generate`: one answer on the terminal as it comes, or a conversation with --chat.
//
// With a chat format beside the checkpoint the prompt is a user message, without one it is text to
// go on from.

#include "actors/app/commands.hpp"
#include "actors/app/job_setup.hpp"
#include "actors/app/local_system.hpp"
#include "actors/app/prompt_job.hpp"
#include "actors/app/response_body.hpp"
#include "actors/app/signals.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>
#include <unistd.h>

namespace troupe::app {

namespace {

using Json = nlohmann::ordered_json;

/// Prints pieces: the answer to standard output, reasoning to standard error.
class Printer {
public:
  explicit Printer(bool is_silent) : silent_(is_silent), colour_(isatty(STDERR_FILENO) != 0) {}

  void print(const actors::Piece& piece) {
    if (silent_) return;
    if (piece.kind == "reasoning") {
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

  void end() {
    if (silent_) return;
    if (std::exchange(reasoning_, false)) std::fputs("\n", stderr);
    std::fputs("\n", stdout);
  }

private:
  bool silent_;
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

private:
  bool chat_;
  std::int64_t max_tokens_;
  Json messages_ = Json::array();
};

/// Prints the error of a failed line; false for a good one.
bool is_error(const LineResult& result, const Json& line) {
  if (result.is_success) return false;
  const Json& body = line["response"].is_null() ? line : line["response"]["body"];
  std::fputs(("troupe: " + body["error"].value("message", "the request failed") + "\n").c_str(),
             stderr);
  return true;
}

/// A running system with everything one prompt after the other needs.
class Session {
public:
  Session(JobSetup setup, std::vector<OpenedRank> ranks, const GenerateArguments& arguments)
      : arguments_(arguments), is_chat_(setup.text.format.has_value()),
        printer_(arguments.common.json), talk_(is_chat_, arguments.max_tokens) {
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

  /// False when the request failed or was interrupted.
  bool run(const std::string& prompt) {
    job_->push(is_chat_ ? text::Endpoint::chat_completions : text::Endpoint::completions,
               talk_.ask(prompt));
    LineResult result;
    bool running = true;
    while (!job_->take(result)) {
      if (!running || signals_seen() > 0) return false;
      running = system_->receive(
          [](const actors::JobState& state) {
            if (state.code != ErrorCode::ok) fail(kExitFailed, state.message);
          },
          [&](const actors::Piece& piece) { printer_.print(piece); });
    }
    printer_.end();
    const Json line = Json::parse(result.text);
    if (is_error(result, line)) return false;
    const Json& body = line["response"]["body"];
    if (arguments_.common.json) std::fputs((body.dump() + "\n").c_str(), stdout);
    talk_.answered(body);
    return true;
  }

private:
  const GenerateArguments& arguments_;
  bool is_chat_;
  Printer printer_;
  Conversation talk_;
  std::shared_ptr<PromptJob> job_ = std::make_shared<PromptJob>();
  std::unique_ptr<LocalSystem> system_;
};

/// Reads lines of the user until end of file. Failures are told and the conversation goes on.
int converse(Session& session, bool is_quiet) {
  const bool prompts = !is_quiet && isatty(STDIN_FILENO) != 0;
  std::string line;
  for (;;) {
    if (prompts) std::fputs("> ", stderr);
    if (!std::getline(std::cin, line)) return kExitDone;
    if (!line.empty()) session.run(line);
    if (signals_seen() > 0) return last_signal_exit_code();
  }
}

} // namespace

int command_generate(const GenerateArguments& arguments) {
  if (arguments.prompt.empty() && !arguments.chat) {
    return fail(kExitRefused, "generate: no prompt: pass one, or --chat for a conversation");
  }
  auto setup = set_up(arguments.common, arguments.model, arguments.policies);
  if (!setup.ok()) return fail(exit_code_of(setup.error()), setup.error().message);
  auto ranks = open_ranks(setup->config);
  if (!ranks.ok()) return fail(exit_code_of(ranks.error()), ranks.error().message);
  watch_signals();
  Session session(std::move(*setup), std::move(*ranks), arguments);
  if (!arguments.prompt.empty() && !session.run(arguments.prompt)) {
    return signals_seen() > 0 ? last_signal_exit_code() : kExitFailed;
  }
  return arguments.chat ? converse(session, arguments.common.quiet) : kExitDone;
}

} // namespace troupe::app
