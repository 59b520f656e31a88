// `troupe verify`: the engine against golden files, one line a file and quantisation.

#include "actors/app/commands.hpp"
#include "actors/app/config_loader.hpp"
#include "engine/verify.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace troupe::app {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kRowsShown = 20;

std::string_view outcome_name(engine::VerifyOutcome outcome) {
  switch (outcome) {
  case engine::VerifyOutcome::passed:
    return "PASS";
  case engine::VerifyOutcome::failed:
    return "FAIL";
  case engine::VerifyOutcome::shown:
    return "SHOWN";
  case engine::VerifyOutcome::skipped:
    return "SKIP";
  }
  return "?";
}

/// Files as named; a folder stands for its golden files, sorted.
std::vector<std::string> golden_files(const std::vector<std::string>& named) {
  std::vector<std::string> files;
  for (const std::string& name : named) {
    std::error_code error;
    if (!std::filesystem::is_directory(name, error)) {
      files.push_back(name);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : std::filesystem::directory_iterator(name, error)) {
      if (entry.path().extension() == ".safetensors") {
        inside.push_back(entry.path().string());
      }
    }
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

void print_quant(const engine::VerifyFileReport& report, const engine::VerifyQuant& quant,
                 bool is_verbose) {
  std::string line =
      fmt::format("{} {} {} {} {:.2e}", quant.passed ? "PASS" : "FAIL", report.file, quant.quant,
                  quant.worst_tensor.empty() ? "-" : quant.worst_tensor, quant.worst_error);
  if (report.layerwise) {
    line += fmt::format(" rows {}/{}", quant.rows - quant.rows_outside, quant.rows);
  }
  line += fmt::format(" greedy {}/{}", std::min(quant.greedy_equal, quant.greedy_count),
                      quant.greedy_count);
  if (quant.skipped > 0) {
    line += fmt::format(" SKIP {}", quant.skipped);
  }
  std::puts(line.c_str());
  for (const std::string& problem : quant.problems) {
    fmt::print("  {}\n", problem);
  }
  // In the sim part of a case file rows differ by design: a flip early on moves all later ones.
  const bool is_listed = is_verbose || report.layerwise || !quant.passed;
  const std::size_t shown = !is_listed   ? 0
                            : is_verbose ? quant.outside.size()
                                         : std::min(quant.outside.size(), kRowsShown);
  for (std::size_t i = 0; i < shown; ++i) {
    const engine::VerifyRow& row = quant.outside[i];
    fmt::print("  outside: {} row {} error {:.2e}{}\n", row.tensor, row.row, row.error,
               row.judged ? "" : " (not judged)");
  }
  if (shown < quant.outside.size()) {
    fmt::print("  outside: {} more rows, --verbose lists them\n", quant.outside.size() - shown);
  }
  if (!is_verbose) {
    return;
  }
  for (const engine::VerifyTensor& tensor : quant.tensors) {
    fmt::print("  {} {} error {:.2e} rows {} outside {}{}{}\n", outcome_name(tensor.outcome),
               tensor.name, tensor.error, tensor.rows, tensor.rows_outside,
               tensor.note.empty() ? "" : ": ", tensor.note);
  }
}

Json quant_json(const engine::VerifyQuant& quant) {
  Json tensors = Json::array();
  for (const engine::VerifyTensor& tensor : quant.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"outcome", outcome_name(tensor.outcome)},
                       {"error", tensor.error},
                       {"rows", tensor.rows},
                       {"rows_outside", tensor.rows_outside},
                       {"note", tensor.note}});
  }
  Json outside = Json::array();
  for (const engine::VerifyRow& row : quant.outside) {
    outside.push_back(
        {{"tensor", row.tensor}, {"row", row.row}, {"error", row.error}, {"judged", row.judged}});
  }
  return {{"quant", quant.quant},
          {"passed", quant.passed},
          {"worst_tensor", quant.worst_tensor},
          {"worst_error", quant.worst_error},
          {"greedy_equal", quant.greedy_equal},
          {"greedy_count", quant.greedy_count},
          {"greedy_stored", quant.greedy_stored},
          {"skipped", quant.skipped},
          {"rows", quant.rows},
          {"rows_outside", quant.rows_outside},
          {"problems", quant.problems},
          {"outside", std::move(outside)},
          {"tensors", std::move(tensors)}};
}

void print_report(const engine::VerifyFileReport& report, const VerifyArguments& arguments) {
  if (arguments.common.json) {
    Json quants = Json::array();
    for (const engine::VerifyQuant& quant : report.quants) {
      quants.push_back(quant_json(quant));
    }
    const Json line = {{"file", report.file},
                       {"passed", report.passed()},
                       {"layerwise", report.layerwise},
                       {"skipped", report.skipped},
                       {"quants", std::move(quants)}};
    std::puts(line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
    return;
  }
  if (report.quants.empty()) {
    fmt::print("SKIP {} {}: all its tensors are of parts that are not built\n", report.skipped,
               report.file);
  }
  for (const engine::VerifyQuant& quant : report.quants) {
    print_quant(report, quant, arguments.verbose);
  }
}

} // namespace

int command_verify(const VerifyArguments& arguments) {
  const ConfigOutcome loaded = load_system_config(arguments.common.config, arguments.common.sets);
  if (!loaded.ok()) {
    return fail(kExitRefused, error_lines(loaded.errors));
  }
  engine::VerifyOptions options;
  options.model_path = arguments.model.empty() ? loaded.config.model.path : arguments.model;
  options.cpu_path = loaded.config.model.cpu_path;
  options.threads = static_cast<int>(loaded.config.ranks.front().threads);
  if (options.model_path.empty()) {
    return fail(kExitRefused, "verify: no model: pass --model DIR, or set model.path");
  }
  const std::vector<std::string> files = golden_files(arguments.goldens);
  if (files.empty()) {
    return fail(kExitRefused, "verify: no golden files in what was named; expected .safetensors");
  }
  const auto verifier = engine::Verifier::open(options);
  if (!verifier) {
    return fail(exit_code_of(verifier.error()), verifier.error().message);
  }
  int exit_code = kExitDone;
  for (const std::string& file : files) {
    const auto report = verifier->verify_file(file);
    if (!report) {
      exit_code = fail(kExitRefused, report.error().message);
      continue;
    }
    print_report(*report, arguments);
    std::fflush(stdout);
    if (!report->passed() && exit_code == kExitDone) {
      exit_code = kExitPartial;
    }
  }
  return exit_code;
}

} // namespace troupe::app
