// Requests for tests of whole systems, made of the bundled model's evaluation prompts.

#pragma once

#include "tests/support/live_system.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace troupe::test {

/// Sets the fields of one body; `index` counts from 0, `line` is its line of the evaluation set.
using ShapeBody =
    std::function<void(nlohmann::ordered_json& body, std::int64_t index, std::int64_t line)>;

/// `count` prompts from all over the set, greedy and seeded by turns, with log-probabilities of two
/// tokens. `shape` sets the rest.
inline std::vector<Request> eval_requests(const std::string& model, std::int64_t count,
                                          const ShapeBody& shape) {
  std::ifstream in(model + "/eval.batch.jsonl");
  std::vector<Request> out;
  std::string text;
  for (std::int64_t line = 0; static_cast<std::int64_t>(out.size()) < count; ++line) {
    if (!std::getline(in, text)) break;
    if (line % 7 != 0) continue;
    const auto read = nlohmann::ordered_json::parse(text);
    auto body = read["body"];
    const auto index = static_cast<std::int64_t>(out.size());
    if (index % 2 == 1) {
      body["temperature"] = 1.0;
      body["top_p"] = 0.95;
      body["seed"] = 1000 + line;
    }
    const bool chat = read["url"] == "/v1/chat/completions";
    if (chat) {
      body["logprobs"] = true;
      body["top_logprobs"] = 2;
    } else {
      body["logprobs"] = 2;
    }
    shape(body, index, line);
    out.emplace_back(chat ? text::Endpoint::chat_completions : text::Endpoint::completions,
                     body.dump());
  }
  return out;
}

} // namespace troupe::test
