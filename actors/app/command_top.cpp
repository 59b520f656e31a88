// `troupe top`: a running system in the terminal, once a second.

#include "actors/app/commands.hpp"
#include "actors/app/control_client.hpp"
#include "actors/app/policy_words.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <unistd.h>

namespace troupe::app {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds kLongest{10'000};
constexpr std::chrono::seconds kEvery{1};
constexpr const char* kClear = "\x1b[H\x1b[2J";

void show(const TopArguments& arguments, const std::string& document) {
  if (arguments.common.json) {
    std::puts(document.c_str());
  } else {
    const bool is_screen = ::isatty(STDOUT_FILENO) != 0;
    std::fputs(((is_screen ? kClear : "") + top_words(document) + (is_screen ? "" : "\n")).c_str(),
               stdout);
  }
  std::fflush(stdout);
}

} // namespace

int command_top(const TopArguments& arguments) {
  auto client = ControlClient::connect(arguments.connect);
  if (!client.ok()) return fail(kExitFailed, client.error().message);
  for (std::int64_t shown = 0; arguments.count == 0 || shown < arguments.count; ++shown) {
    if (shown > 0) std::this_thread::sleep_for(kEvery);
    const auto answer = client->ask(R"({"command":"top"})", kLongest);
    if (!answer.ok()) {
      // A system that ends while it is watched is no failure of the watcher.
      return fail(shown > 0 ? kExitDone : kExitFailed, answer.error().message);
    }
    const Json parsed = Json::parse(*answer, nullptr, false);
    if (!parsed.is_object() || !parsed.value("ok", false)) {
      const bool has_error = parsed.is_object() && parsed.contains("error");
      return fail(kExitFailed, client->path() + ": " +
                                   (has_error ? parsed["error"].value("message", "no reason given")
                                              : std::string("it speaks another language")));
    }
    show(arguments, parsed["result"].dump(-1, ' ', false, Json::error_handler_t::replace));
    if (std::ferror(stdout) != 0) return kExitFailed;
  }
  return kExitDone;
}

} // namespace troupe::app
