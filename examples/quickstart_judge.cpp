// Counts the right answers of the bundled model: quickstart_judge EVAL BATCH RESULTS [RIGHT-MIN]
//
// EVAL holds the expected answers, BATCH the requests of the same cases as batch lines, RESULTS
// what `troupe batch` wrote. Exit code 1 when fewer than RIGHT-MIN are right, 2 for unusable input.

#include <nlohmann/json.hpp>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

using nlohmann::json;

struct Case {
  std::string task;
  std::string answer;     ///< Expected content of a chat answer.
  std::string completion; ///< Expected text of a completion, without the end-of-sequence token.
  bool is_chat = true;
  bool answered = false;
  bool right = false;
};

struct Count {
  std::int64_t right = 0;
  std::int64_t cases = 0;
};

/// Calls `take` with each line of a file of JSON lines; an error names file and line.
template <class Take>
void for_each_line(const std::string& path, Take take) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    try {
      take(json::parse(line));
    } catch (const std::exception& error) {
      throw std::runtime_error(path + ":" + std::to_string(number) + ": " + error.what());
    }
  }
}

/// The text without its last token, which is a special one: <｜name｜>.
std::string without_last_token(std::string text) {
  constexpr std::string_view kOpen = "<｜";
  const std::size_t begin = text.rfind(kOpen);
  if (begin == std::string::npos || !text.ends_with("｜>")) {
    throw std::runtime_error("completion: does not end with an end-of-sequence token");
  }
  text.erase(begin);
  return text;
}

std::map<std::string, Case> read_cases(const std::string& eval, const std::string& batch) {
  std::map<std::string, Case> cases;
  for_each_line(eval, [&](const json& row) {
    Case one;
    one.task = row.at("task").get<std::string>();
    if (row.at("answer").is_string()) one.answer = row.at("answer").get<std::string>();
    one.completion = without_last_token(row.at("completion").get<std::string>());
    cases[std::to_string(row.at("id").get<std::int64_t>())] = std::move(one);
  });
  std::map<std::string, Case> asked;
  for_each_line(batch, [&](const json& row) {
    const auto id = row.at("custom_id").get<std::string>();
    Case one = cases.at(id);
    one.is_chat = row.at("url").get<std::string>() == "/v1/chat/completions";
    asked[id] = std::move(one);
  });
  return asked;
}

bool is_right(const Case& expected, const json& body) {
  const json& choice = body.at("choices").at(0);
  if (!expected.is_chat) return choice.at("text").get<std::string>() == expected.completion;
  const json& content = choice.at("message").at("content");
  return content.is_string() && content.get<std::string>() == expected.answer;
}

void judge(const std::string& results, std::map<std::string, Case>& cases) {
  for_each_line(results, [&](const json& row) {
    Case& one = cases.at(row.at("custom_id").get<std::string>());
    if (one.answered) throw std::runtime_error("custom_id: answered twice");
    one.answered = true;
    one.right = is_right(one, row.at("response").at("body"));
  });
}

int report(const std::map<std::string, Case>& cases, std::int64_t right_min) {
  std::map<std::string, Count> tasks;
  Count all;
  std::int64_t answered = 0;
  for (const auto& [id, one] : cases) {
    Count& task = tasks[one.task];
    ++task.cases;
    ++all.cases;
    task.right += one.right ? 1 : 0;
    all.right += one.right ? 1 : 0;
    answered += one.answered ? 1 : 0;
  }
  for (const auto& [name, task] : tasks) {
    std::printf("%-14s %3ld of %3ld\n", name.c_str(), task.right, task.cases);
  }
  std::printf("%ld of %ld answers right\n", all.right, all.cases);
  if (answered < all.cases) {
    std::fprintf(stderr, "quickstart_judge: %ld cases have no answer\n", all.cases - answered);
    return 1;
  }
  if (all.right < right_min) {
    std::fprintf(stderr, "quickstart_judge: expected at least %ld\n", right_min);
    return 1;
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  std::int64_t right_min = 0;
  const std::string_view least = argc == 5 ? argv[4] : "0";
  const auto parsed = std::from_chars(least.data(), least.data() + least.size(), right_min);
  if (argc < 4 || argc > 5 || parsed.ec != std::errc() ||
      parsed.ptr != least.data() + least.size()) {
    std::fputs("usage: quickstart_judge EVAL BATCH RESULTS [RIGHT-MIN]\n", stderr);
    return 2;
  }
  try {
    std::map<std::string, Case> cases = read_cases(argv[1], argv[2]);
    judge(argv[3], cases);
    return report(cases, right_min);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "quickstart_judge: %s\n", error.what());
    return 2;
  }
}
