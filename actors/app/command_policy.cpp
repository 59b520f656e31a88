// `troupe policy ...`: what a policy file comes to, and the policies of a running system.

#include "actors/app/commands.hpp"
#include "actors/app/config_loader.hpp"
#include "actors/app/control_client.hpp"
#include "actors/app/control_documents.hpp"
#include "actors/app/job_setup.hpp"
#include "actors/app/policy_words.hpp"
#include "engine/text/text_file.hpp"
#include "schedulers/core/printable.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <filesystem>

namespace troupe::app {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds kLongest{120'000}; ///< A swap that waits behind others.
constexpr std::chrono::milliseconds kLongestLook{10'000};

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

// -- without a running system -------------------------------------------------------------------

/// Every key that the set comes to, those with the value of the compiled-in set marked.
std::string resolved_words(const sched::PolicySet& set, const sched::PolicyRegistry& registry) {
  const auto defaults = policy_rows({}, registry);
  std::string out;
  for (const auto& [key, value] : policy_rows(set, registry)) {
    const auto at = defaults.find(key);
    const bool is_default = at != defaults.end() && at->second == value;
    const std::string row = message_line(fmt::format("{} = {}", key, value));
    out += is_default ? fmt::format("{:<48} # default\n", row) : fmt::format("{}\n", row);
  }
  return out;
}

int check_file(const PolicyArguments& arguments) {
  const auto registry = program_policies();
  const PolicyOutcome outcome = load_policy_file(arguments.file, *registry);
  if (arguments.common.json) {
    print(check_document(outcome.errors) + "\n");
    return outcome.ok() ? kExitDone : kExitRefused;
  }
  if (!outcome.ok()) return fail(kExitRefused, error_lines(outcome.errors));
  if (!arguments.common.quiet) {
    print(resolved_words(outcome.set, *registry));
    fail(kExitDone, arguments.file + ": valid");
  }
  return kExitDone;
}

int diff_files(const PolicyArguments& arguments) {
  const auto registry = program_policies();
  const PolicyOutcome a = load_policy_file(arguments.file, *registry);
  const PolicyOutcome b = load_policy_file(arguments.other, *registry);
  std::vector<ConfigError> errors = a.errors;
  errors.insert(errors.end(), b.errors.begin(), b.errors.end());
  if (!errors.empty()) return fail(kExitRefused, error_lines(errors));
  const std::string document = diff_document(a.set, b.set, *registry);
  print(arguments.common.json ? document + "\n" : diff_words(document));
  return kExitDone;
}

// -- of a running system ------------------------------------------------------------------------

/// The request with the text of the policy file: the running system may see other files.
Result<Json> file_request(const PolicyArguments& arguments) {
  auto text = text::read_text_file(arguments.file, kPolicyTextBytesMax);
  if (!text.ok()) return text.error();
  return Json{{"command", arguments.verb},
              {"text", std::move(*text)},
              {"file", std::filesystem::absolute(arguments.file).lexically_normal().string()}};
}

Result<Json> request_of(const PolicyArguments& arguments) {
  const std::string& verb = arguments.verb;
  if (verb == "swap" || verb == "check" || verb == "diff") return file_request(arguments);
  Json request = {{"command", verb}};
  if (verb == "shadow" || verb == "canary") {
    request["kind"] = arguments.kind;
    request["policy"] = arguments.policy;
  }
  if (arguments.share > 0.0) request["share"] = arguments.share;
  return request;
}

/// The document of an answer, or what is wrong with the request.
Result<std::string> result_of(const std::string& answer, const std::string& path) {
  const Json parsed = Json::parse(answer, nullptr, false);
  if (parsed.is_object() && parsed.value("ok", false) && parsed.contains("result")) {
    return parsed["result"].dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  const bool has_error = parsed.is_object() && parsed.contains("error");
  const std::string code = has_error ? parsed["error"].value("code", "") : "";
  const std::string message =
      has_error ? parsed["error"].value("message", "") : "it speaks another language";
  const bool is_wrong = code == "bad_request" || code == "unknown_command" || code == "too_long";
  return Error{is_wrong ? ErrorCode::bad_argument : ErrorCode::io_error, path + ": " + message};
}

int say_document(const PolicyArguments& arguments, const std::string& document) {
  const std::string& verb = arguments.verb;
  const bool refused = !Json::parse(document).value("ok", true);
  const int exit_code = refused ? kExitRefused : kExitDone;
  if (arguments.common.json) {
    print(document + "\n");
  } else if (verb == "show") {
    print(show_words(document));
  } else if (verb == "history") {
    print(history_words(document));
  } else if (verb == "diff") {
    if (refused) return fail(exit_code, ended_words(document));
    print(diff_words(document));
  } else if (verb == "check") {
    std::string lines;
    for (const Json& error : Json::parse(document)["errors"]) {
      const ConfigError one{error["file"], error["line"], error["key"], error["message"]};
      if (!lines.empty()) lines += '\n';
      lines += one.text();
    }
    if (refused) return fail(exit_code, lines);
    fail(kExitDone, arguments.file + ": valid");
  } else {
    const std::string words = ended_words(document);
    if (refused) return fail(exit_code, words);
    print(words + "\n");
  }
  return exit_code;
}

int ask_system(const PolicyArguments& arguments) {
  const auto request = request_of(arguments);
  if (!request.ok()) return fail(kExitRefused, request.error().message);
  auto client = ControlClient::connect(arguments.connect);
  if (!client.ok()) return fail(kExitFailed, client.error().message);
  const bool looks = arguments.verb == "show" || arguments.verb == "history";
  const auto answer = client->ask(request->dump(-1, ' ', false, Json::error_handler_t::replace),
                                  looks ? kLongestLook : kLongest);
  if (!answer.ok()) return fail(kExitFailed, answer.error().message);
  const auto document = result_of(*answer, client->path());
  if (!document.ok()) {
    const bool is_wrong = document.error().code == ErrorCode::bad_argument;
    return fail(is_wrong ? kExitRefused : kExitFailed, document.error().message);
  }
  return say_document(arguments, *document);
}

} // namespace

int command_policy(const PolicyArguments& arguments) {
  // The parser's ranges let it pass.
  if (std::isnan(arguments.share)) {
    return fail(kExitRefused, "canary: --share: found nan, expected a number from 0.001 to 1");
  }
  if (arguments.verb == "check" && arguments.connect.empty()) return check_file(arguments);
  if (arguments.verb == "diff" && !arguments.other.empty()) return diff_files(arguments);
  return ask_system(arguments);
}

} // namespace troupe::app
