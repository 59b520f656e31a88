#include "actors/app/running_ledger.hpp"

#include "actors/app/control_client.hpp"

#include <nlohmann/json.hpp>

#include <chrono>

namespace troupe::app {

namespace {

using Json = nlohmann::json;

constexpr std::chrono::milliseconds kLongest{20'000}; ///< A slow disk.

/// The fields of the document, or why they are not there.
Result<LedgerPlace> place_of(const Json& answer, const std::string& path) {
  const bool is_object = answer.is_object();
  if (is_object && answer.contains("error")) {
    return Error{ErrorCode::io_error,
                 path + ": " + answer["error"].value("message", "no reason given")};
  }
  const Json result = is_object ? answer.value("result", Json()) : Json();
  if (!result.is_object() || !result.contains("folder")) {
    return Error{ErrorCode::io_error, path + ": it speaks another language"};
  }
  if (!result["folder"].is_string()) {
    return Error{ErrorCode::not_found,
                 path + ": this system keeps no ledger: ledger.level is \"off\", or its folder "
                        "cannot be written, as its log says; expected \"decisions\" or \"events\""};
  }
  return LedgerPlace{result["folder"].get<std::string>(),
                     result.value("next_number", std::uint64_t{0}),
                     result.value("at_us", std::int64_t{0})};
}

} // namespace

Result<LedgerPlace> ask_ledger(const std::string& socket) {
  auto client = ControlClient::connect(socket);
  if (!client.ok()) return client.error();
  const auto answer = client->ask(R"({"command":"ledger"})", kLongest);
  if (!answer.ok()) return answer.error();
  return place_of(Json::parse(*answer, nullptr, false), client->path());
}

} // namespace troupe::app
