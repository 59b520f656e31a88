#include "actors/app/control_requests.hpp"

#include "actors/app/config_bind.hpp"
#include "actors/app/config_loader.hpp"
#include "actors/app/control_documents.hpp"
#include "actors/app/derived_set.hpp"
#include "engine/text/json_value.hpp"
#include "engine/text/request_error.hpp"
#include "schedulers/core/printable.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <future>
#include <map>
#include <set>
#include <utility>

namespace troupe::app {

namespace {

using Json = nlohmann::ordered_json;
using text::JsonValue;

/// A request that cannot be answered.
struct Refusal {
  std::string code;
  std::string message;
};

/// Fields that each command takes besides "command".
const std::map<std::string, std::set<std::string>>& commands() {
  static const std::map<std::string, std::set<std::string>> all = {
      {"show", {}},
      {"check", {"text", "file"}},
      {"diff", {"text", "file"}},
      {"swap", {"text", "file", "reason"}},
      {"shadow", {"kind", "policy", "reason"}},
      {"canary", {"kind", "policy", "share", "reason"}},
      {"promote", {}},
      {"rollback", {"reason"}},
      {"history", {}},
      {"ledger", {}},
      {"top", {}}};
  return all;
}

template <class Map>
std::set<std::string> keys_of(const Map& map) {
  std::set<std::string> keys;
  for (const auto& [key, value] : map)
    keys.insert(key);
  return keys;
}

/// The fields of one request, checked for type.
class Fields {
public:
  explicit Fields(const JsonValue& request) : request_(request) {}

  std::string text(const char* key) {
    const JsonValue* at = request_.find(key);
    if (at == nullptr) return {};
    if (at->string() != nullptr) return *at->string();
    fail(key, "a text");
    return {};
  }

  /// The same of a field that must be there.
  std::string needed_text(const char* key) {
    std::string found = text(key);
    if (found.empty() && !refusal_) fail(key, "a text, as it is missing or empty");
    return found;
  }

  /// A share from 0.001 to 1 in thousandths; 0 when it is absent.
  std::int64_t permille(const char* key) {
    const JsonValue* at = request_.find(key);
    if (at == nullptr) return 0;
    const double share = at->is_number() ? at->number() : 0.0;
    // Written so that not-a-number fails.
    if (share >= 0.001 && share <= 1.0) return std::llround(share * 1000.0);
    fail(key, "a number from 0.001 to 1");
    return 0;
  }

  const std::optional<Refusal>& refusal() const noexcept { return refusal_; }

private:
  void fail(const char* key, const char* expected) {
    if (refusal_) return;
    refusal_ = Refusal{"bad_request", std::string(key) + ": expected " + expected};
  }

  const JsonValue& request_;
  std::optional<Refusal> refusal_;
};

/// The name of the command, or nothing when it is no text.
std::string command_of(const JsonValue& request) {
  const JsonValue* at = request.find("command");
  return at != nullptr && at->string() != nullptr ? *at->string() : std::string();
}

std::optional<Refusal> check_fields(const JsonValue& request) {
  const JsonValue* given = request.find("command");
  if (given == nullptr || given->string() == nullptr) {
    return Refusal{"bad_request", "found no command, expected one JSON object a line with a "
                                  "\"command\" in quotes, as in {\"command\": \"show\"}"};
  }
  const std::set<std::string> names = keys_of(commands());
  const std::string name = command_of(request);
  const auto command = commands().find(name);
  if (command == commands().end()) {
    return Refusal{"unknown_command",
                   "command: there is none of this name" + name_hint(name, names)};
  }
  for (const auto& [key, value] : *request.object()) {
    if (key == "command" || command->second.contains(key)) continue;
    std::set<std::string> valid = command->second;
    valid.insert("command");
    return Refusal{"bad_request", printable(key) + ": unknown field" + name_hint(key, valid)};
  }
  return std::nullopt;
}

std::string ok_line(const std::string& document) {
  return R"({"ok":true,"result":)" + document + "}";
}

ControlReply at_once(std::string line) {
  return [line = std::move(line)](std::int64_t) { return std::optional(line); };
}

/// Asks `look` for its line until it has one, for `answer_us` from when it is first asked; then
/// `late` is the answer.
template <class Look>
ControlReply wait_for(Look look, std::int64_t answer_us, const char* late) {
  const auto shared = std::make_shared<Look>(std::move(look));
  const auto due_us = std::make_shared<std::optional<std::int64_t>>();
  return [shared, due_us, answer_us, late](std::int64_t now_us) -> std::optional<std::string> {
    if (auto line = (*shared)()) return line;
    if (!*due_us) *due_us = now_us + answer_us;
    if (now_us < **due_us) return std::nullopt;
    return control_error("late", late);
  };
}

/// Waits for the manager.
ControlReply when_ended(ControlDesk::Ended ended, std::int64_t answer_us) {
  auto look = [ended = std::move(ended)]() mutable -> std::optional<std::string> {
    const auto swap = take_ended(ended);
    if (!swap) return std::nullopt;
    return ok_line(ended_document(*swap));
  };
  return wait_for(std::move(look), answer_us,
                  "the policy manager has not answered yet; `troupe policy show` says what is "
                  "live");
}

/// Waits for the thread of the ledger.
ControlReply when_written(LedgerReply written, std::int64_t answer_us) {
  const auto look = [written = std::move(written)]() -> std::optional<std::string> {
    const auto place = written();
    if (!place) return std::nullopt;
    return ok_line(ledger_document(*place));
  };
  return wait_for(look, answer_us, "the ledger is not written yet; is its disk slow or full?");
}

/// What one line asks for.
class Request {
public:
  Request(ControlDesk& desk, const sched::PolicyRegistry& registry, const JsonValue& request,
          std::int64_t answer_us)
      : desk_(desk), registry_(registry), command_(command_of(request)), fields_(request),
        answer_us_(answer_us) {}

  /// Whether the answer may need a library to be looked at, which takes seconds at worst.
  static bool may_take_long(const JsonValue& request) {
    static const std::set<std::string> builds = {"check", "diff", "swap", "shadow", "canary"};
    return builds.contains(command_of(request));
  }

  ControlReply reply() {
    ControlReply made = answer();
    const std::optional<Refusal>& refusal = fields_.refusal();
    return refusal ? at_once(control_error(refusal->code, refusal->message)) : made;
  }

private:
  ControlReply answer() {
    if (command_ == "show") return document(show_document(desk_.view(), registry_));
    if (command_ == "history") return document(history_document(desk_.view()));
    if (command_ == "top") return document(desk_.top());
    if (command_ == "ledger") return when_written(desk_.write_ledger(), answer_us_);
    if (command_ == "promote") return when_ended(desk_.ask(sched::PromoteAsked{}), answer_us_);
    if (command_ == "rollback") return rollback();
    if (command_ == "shadow") return shadow();
    if (command_ == "canary") return canary();
    return of_file();
  }

  static ControlReply document(const std::string& text) { return at_once(ok_line(text)); }

  ControlReply rollback() {
    sched::RollbackAsked asked;
    asked.reason = reason("asked for by command");
    if (fields_.refusal()) return {};
    return when_ended(desk_.ask(std::move(asked)), answer_us_);
  }

  ControlReply shadow() {
    const std::string kind = fields_.needed_text("kind");
    const std::string policy = fields_.needed_text("policy");
    const std::string why = reason("shadow " + kind + " " + policy);
    if (fields_.refusal()) return {};
    return derived(with_shadow(desk_.view().live, kind, policy, registry_), why);
  }

  ControlReply canary() {
    const std::string kind = fields_.needed_text("kind");
    const std::string policy = fields_.needed_text("policy");
    const std::int64_t permille = fields_.permille("share");
    const std::string why = reason("canary " + kind + " " + policy);
    if (fields_.refusal()) return {};
    return derived(with_canary(desk_.view().live, kind, policy, permille, registry_), why);
  }

  ControlReply derived(Result<sched::PolicySet> set, const std::string& why) {
    if (!set.ok()) {
      return document(refused_document(desk_.view(), {{"", 0, "", set.error().message}}));
    }
    return swap(std::move(set).value(), why);
  }

  /// check, diff and swap: a text, or the file it stands in.
  ControlReply of_file() {
    const std::string text = fields_.text("text");
    const std::string file = fields_.text("file");
    const std::string why = command_ == "swap" ? reason("asked for by command") : std::string();
    if (fields_.refusal()) return {};
    if (text.empty() && file.empty()) {
      return at_once(control_error("bad_request", "found neither text nor file, expected the text "
                                                  "of a policy file, or its path"));
    }
    PolicyOutcome outcome = text.empty()
                                ? load_policy_file(file, registry_)
                                : parse_policy_file(text, file.empty() ? "text" : file, registry_);
    if (command_ == "check") return document(check_document(outcome.errors));
    if (!outcome.ok()) return document(refused_document(desk_.view(), outcome.errors));
    if (command_ == "diff") {
      return document(diff_document(desk_.view().live, outcome.set, registry_));
    }
    return swap(std::move(outcome.set), why);
  }

  ControlReply swap(sched::PolicySet set, const std::string& why) {
    sched::SwapAsked asked;
    asked.set = std::move(set);
    asked.cause = sched::SwapCause::command;
    asked.reason = why;
    return when_ended(desk_.ask(std::move(asked)), answer_us_);
  }

  std::string reason(const std::string& fallback) {
    constexpr std::size_t kReasonBytes = 500; // It goes into history, ledger and log.
    const std::string given = fields_.text("reason");
    return given.empty() ? fallback : given.substr(0, kReasonBytes);
  }

  ControlDesk& desk_;
  const sched::PolicyRegistry& registry_;
  std::string command_;
  Fields fields_;
  std::int64_t answer_us_;
};

/// The reply that `make` makes on the thread of `worker`, once it has.
ControlReply made_by(ControlWorker& worker, std::function<ControlReply()> make) {
  struct Made {
    std::promise<ControlReply> promise;
    std::future<ControlReply> coming = promise.get_future();
    ControlReply reply;
  };
  const auto made = std::make_shared<Made>();
  worker.add([made, make = std::move(make)] { made->promise.set_value(make()); });
  return [made](std::int64_t now_us) -> std::optional<std::string> {
    if (!made->reply) {
      const auto there = made->coming.wait_for(std::chrono::seconds{0});
      if (there != std::future_status::ready) return std::nullopt;
      made->reply = made->coming.get();
    }
    return made->reply(now_us);
  };
}

} // namespace

std::string control_error(std::string_view code, std::string_view message) {
  const Json out = {{"ok", false}, {"error", {{"code", code}, {"message", message}}}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ControlRequests::ControlRequests(std::shared_ptr<ControlDesk> desk,
                                 std::shared_ptr<const sched::PolicyRegistry> registry,
                                 std::int64_t answer_us)
    : desk_(std::move(desk)), registry_(std::move(registry)), answer_us_(answer_us),
      worker_(std::make_shared<ControlWorker>()) {}

ControlReply ControlRequests::take(std::string_view line) {
  std::string repeated;
  const Result<JsonValue> parsed = text::parse_json(line, repeated);
  const JsonValue request = parsed.ok() ? *parsed : JsonValue();
  const std::optional<Refusal> refusal =
      repeated.empty() ? check_fields(request)
                       : Refusal{"bad_request", text::repeated_field(repeated).message};
  if (refusal) {
    return at_once(control_error(refusal->code, refusal->message));
  }
  if (!Request::may_take_long(request)) {
    return Request(*desk_, *registry_, request, answer_us_).reply();
  }
  return made_by(*worker_, [desk = desk_, registry = registry_, request, answer_us = answer_us_] {
    return Request(*desk, *registry, request, answer_us).reply();
  });
}

} // namespace troupe::app
