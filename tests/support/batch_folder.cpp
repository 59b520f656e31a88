#include "tests/support/batch_folder.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>

namespace troupe::test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string bundled_model() {
  return fmt::format("{}/examples/models/nano-v4.1", TROUPE_SOURCE_DIR);
}

std::string small_model() {
  const char* set = std::getenv("TROUPE_SHARED");
  const fs::path shared =
      set != nullptr ? fs::path(set) : fs::path(TROUPE_SOURCE_DIR).parent_path() / "shared";
  const fs::path micro = shared / "models" / "micro-v4.1";
  return fs::exists(micro / "config.json") ? micro.string() : bundled_model();
}

bool JobAnswers::is_exact() const {
  return torn == 0 && lines == static_cast<std::int64_t>(output.size() + errors.size());
}

JobAnswers read_answers(const std::string& output_path, const std::string& errors_path) {
  JobAnswers answers;
  for (const std::string& path : {output_path, errors_path}) {
    auto& into = path == output_path ? answers.output : answers.errors;
    std::ifstream file(path, std::ios::binary);
    std::string text;
    while (std::getline(file, text)) {
      ++answers.lines;
      const Json line = Json::parse(text, nullptr, false);
      if (line.is_discarded() || !line.is_object()) {
        ++answers.torn;
        continue;
      }
      const std::string id = line["custom_id"].is_string()
                                 ? line["custom_id"].get<std::string>()
                                 : fmt::format("line {}", line.value("line", 0));
      const bool has_body = line["response"].is_object();
      const Json& body = has_body ? line["response"]["body"] : line["error"];
      into[id] = body.contains("choices") ? body["choices"].dump() : body.dump();
    }
  }
  return answers;
}

void BatchFolder::use_null_device() {
  for (const char* rank : {"prefill", "decode"}) {
    flags.emplace_back("--set");
    flags.push_back(fmt::format("rank.{}.device=\"null\"", rank));
  }
}

std::string BatchFolder::completions(std::int64_t count, std::int64_t tokens) {
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) {
    text += fmt::format(R"({{"custom_id":"r{}","method":"POST","url":"/v1/completions",)"
                        R"("body":{{"prompt":[{},{},{}],"max_tokens":{},"temperature":0,)"
                        R"("ignore_eos":true}}}})"
                        "\n",
                        i, 5 + i % 90, 7 + i % 80, 11 + i % 70, tokens);
  }
  return text;
}

ProcessOptions BatchFolder::command(const std::vector<std::string>& more) const {
  ProcessOptions options;
  options.arguments = {"batch", "--quiet", "--model", model, "--input", input, "--output", output};
  options.arguments.insert(options.arguments.end(), flags.begin(), flags.end());
  options.arguments.insert(options.arguments.end(), more.begin(), more.end());
  options.folder = files.path("");
  options.environment = environment;
  return options;
}

ProcessEnd BatchFolder::run(const std::vector<std::string>& more) const {
  return TroupeProcess(command(more)).wait();
}

JobAnswers BatchFolder::answers() const {
  const fs::path path = fs::path(files.path("")) / output;
  fs::path errors = path;
  errors.replace_extension(".errors.jsonl");
  return read_answers(path.string(), errors.string());
}

} // namespace troupe::test
