// A folder with a batch job of the executable: its input, its command, its answers.

#pragma once

#include "tests/actors/app/temporary_folder.hpp"
#include "tests/support/troupe_process.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::test {

/// Checkpoint for jobs that compute: the micro model of the shared test material, or the bundled
/// one when that is not there.
std::string small_model();

/// The bundled checkpoint.
std::string bundled_model();

/// What stands in output and errors file of a job.
struct JobAnswers {
  std::map<std::string, std::string> output; ///< custom_id to the answer's choices, as JSON text.
  std::map<std::string, std::string> errors; ///< custom_id, or "line N", to the error.
  std::int64_t lines = 0;                    ///< Of both files.
  std::int64_t torn = 0;                     ///< Lines that are no JSON document.

  /// Every line has an id of its own and nothing is torn.
  bool is_exact() const;
  bool operator==(const JobAnswers&) const = default;
};

JobAnswers read_answers(const std::string& output_path, const std::string& errors_path);

/// `troupe batch` in a folder of its own; paths are relative to it.
class BatchFolder {
public:
  app::TemporaryFolder files;
  std::string model = small_model();
  std::string input = "in.jsonl";
  std::string output = "out.jsonl";
  std::vector<std::string> flags; ///< Added to each command.
  std::vector<std::pair<std::string, std::string>> environment;

  /// All ranks make tokens up: for jobs of many lines.
  void use_null_device();
  /// `count` completions "r0", "r1", ... of a few tokens each.
  static std::string completions(std::int64_t count, std::int64_t tokens = 4);
  void write_input(const std::string& text) const { files.write("in.jsonl", text); }

  ProcessOptions command(const std::vector<std::string>& more = {}) const;
  ProcessEnd run(const std::vector<std::string>& more = {}) const;
  JobAnswers answers() const;
};

} // namespace troupe::test
