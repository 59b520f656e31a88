// A small job of the journal with its files, and answers to its lines.

#pragma once

#include "actors/app/journal.hpp"
#include "tests/actors/app/temporary_folder.hpp"

#include <string>

namespace troupe::app {

inline constexpr std::int64_t kStartUs = 1'700'000'000'000'000;

inline std::string batch_line(const std::string& custom_id) {
  return R"({"custom_id":")" + custom_id +
         R"(","method":"POST","url":"/v1/completions","body":{"prompt":"p"}})";
}

/// Nine good lines, a bad one, a duplicate, a blank line.
inline std::string sample_input() {
  std::string text;
  for (const char* id : {"a", "b", "c"}) {
    text += batch_line(id) + "\n";
  }
  text += "no json\n\n";
  for (const char* id : {"d", "e", "b", "f", "g", "h"}) {
    text += batch_line(id) + "\n";
  }
  return text + batch_line("i");
}
inline constexpr std::int64_t kSampleLines = 11;

inline JobIdentity sample_identity() {
  return {{{"model", "m1"}, {"cluster.seed", "1"}}, {{"cpu_path", "avx2"}}};
}

struct Job {
  TemporaryFolder folder;
  BatchPaths paths;
  JobIdentity identity = sample_identity();
  JobOptions options;

  explicit Job(const std::string& input = sample_input()) {
    paths = batch_paths(folder.write("in.jsonl", input), folder.path("out.jsonl"), "");
    options.now_us = kStartUs;
  }
  auto open() { return open_journal(paths, identity, options); }
  std::string output() const { return folder.read("out.jsonl"); }
  std::string errors() const { return folder.read("out.errors.jsonl"); }
};

/// Line d fails although it can be read.
inline LineResult answer(const JobFacts& facts, const PendingLine& line) {
  LineResult result;
  result.index = line.index;
  result.prompt_tokens = 10;
  result.completion_tokens = 1;
  if (!line.outcome.ok()) {
    result.text = unreadable_line(facts.job_id, line.number, *line.outcome.error);
    return result;
  }
  result.is_success = line.outcome.line.custom_id != "d";
  result.text = response_line(facts.job_id, line.outcome.line.custom_id,
                              result.is_success ? 200 : 400, line.outcome.line.body);
  return result;
}

} // namespace troupe::app
