// A line of the control socket → one line of answer, whatever the line is.

#include "actors/app/control_requests.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/stage_desk.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace troupe;
  static const auto registry = [] {
    auto made = std::make_shared<sched::PolicyRegistry>();
    sched::register_builtin_policies(*made);
    return std::shared_ptr<const sched::PolicyRegistry>(made);
  }();
  const auto desk = std::make_shared<test::StageDesk>(registry);
  app::ControlRequests requests(desk, registry, 1000);
  const app::ControlReply reply = requests.take(fuzz::text_of(data, size));
  fuzz::require(static_cast<bool>(reply), "every line has an answer");
  std::optional<std::string> answer;
  for (std::int64_t now_us = 0; !answer && now_us < 60'000'000; now_us += 1000) {
    if (now_us > 0) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    answer = reply(now_us);
  }
  fuzz::require(answer.has_value(), "an answer is not waited for without end");
  fuzz::require(answer->find('\n') == std::string::npos, "an answer is one line");
  const auto parsed = nlohmann::json::parse(*answer, nullptr, false);
  fuzz::require(parsed.is_object() && parsed["ok"].is_boolean(), "an answer is a JSON object");
  const char* other = parsed["ok"].get<bool>() ? "result" : "error";
  fuzz::require(parsed.contains(other), "with its document, or what is wrong");
  fuzz::require(registry->check(desk->view().live).ok(), "what is live is a set that was checked");
  return 0;
}
