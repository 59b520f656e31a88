#include "actors/app/policy_tables.hpp"

#include "actors/app/batch_files.hpp"
#include "actors/app/policy_options.hpp"
#include "engine/text/system_words.hpp"
#include "schedulers/core/printable.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kRatioPermilleMax = 1'000'000;

/// Reads a table whose keys `read` asks for; one error at most.
template <class Read>
void read_table(const ConfigNode& node, const std::string& name, std::vector<ConfigError>& errors,
                Read read) {
  OptionTable table(name);
  if (!read_options(node, name, table, errors)) return;
  read(table);
  if (const Status good = table.finish(); !good.ok()) {
    errors.push_back(option_error(good.error().message, node, name, name));
  }
}

/// What is found in place of a file.
std::string what_stands_at(const std::string& path, const fs::file_status& status,
                           const std::error_code& error) {
  const std::string shown = printable(path, kShownPathMax);
  if (status.type() == fs::file_type::not_found) return "found no file " + shown;
  if (status.type() == fs::file_type::none) {
    return shown + " cannot be opened (" + text::system_words(error.value()) + ")";
  }
  const bool is_folder = status.type() == fs::file_type::directory;
  return shown + " is " + (is_folder ? "a folder" : "a pipe, socket or device");
}

/// The library's file as an absolute path, and what its bytes are.
Status look_at(const ConfigNode& node, sched::LibrarySpec& library) {
  if (library.path.empty()) {
    return {ErrorCode::missing_key, "it is missing or empty; name the shared object, as in path = "
                                    "\"libmine.so\", relative to this file"};
  }
  std::error_code error;
  library.path =
      fs::absolute(fs::path(node.file).parent_path() / library.path).lexically_normal().string();
  const fs::file_status status = fs::status(library.path, error);
  if (!fs::is_regular_file(status)) {
    return {ErrorCode::not_found, what_stands_at(library.path, status, error) +
                                      ", expected a shared object; put it there or correct the "
                                      "path, which counts from the folder of this file"};
  }
  const auto digest = digest_of_file(library.path);
  if (!digest.ok()) return digest.status();
  library.digest = hex(*digest);
  return {};
}

bool read_library(const ConfigNode& node, const sched::PolicyRegistry& registry,
                  sched::LibrarySpec& library, std::vector<ConfigError>& errors) {
  constexpr std::array<std::string_view, 2> kIsolations = {"lane", "none"};
  const std::size_t before = errors.size();
  if (node.kind != NodeKind::table) {
    errors.push_back({node.file, node.line, "library",
                      "found " + node.shown() + ", expected tables [[library]]"});
    return false;
  }
  read_table(node, "library", errors, [&](OptionTable& table) {
    library.path = table.text("path", "");
    library.lane = table.choice("isolation", 0, kIsolations) == 0;
    library.decide_us = table.integer("decide_us", library.decide_us, 1, 60'000'000);
    library.create_ms = table.integer("create_ms", library.create_ms, 1, 600'000);
  });
  if (errors.size() != before) return false;
  const auto path = node.table.find("path");
  const ConfigNode& place = path == node.table.end() ? node : path->second;
  Status good = look_at(node, library);
  if (good.ok()) good = registry.check_library(library);
  if (!good.ok()) errors.push_back({place.file, place.line, "library.path", good.error().message});
  return good.ok();
}

/// What the last one has in common with one before it: nobody could say which of them is meant.
std::string held_twice(const std::vector<sched::LibrarySpec>& libraries,
                       const sched::PolicyRegistry& registry) {
  const sched::LibrarySpec& last = libraries.back();
  for (const std::string& kind : registry.kinds()) {
    const std::set<std::string> names = registry.names(kind, {last});
    const std::set<std::string> built_in = registry.names(kind);
    for (std::size_t i = 0; i + 1 < libraries.size(); ++i) {
      for (const std::string& name : registry.names(kind, {libraries[i]})) {
        if (built_in.contains(name) || !names.contains(name)) continue;
        return "found " + kind + " policy " + quote(name) + " in " + libraries[i].path +
               " and in " + last.path +
               ", expected each policy in one library; rename one, or remove a table";
      }
    }
  }
  return {};
}

} // namespace

std::vector<sched::LibrarySpec> read_libraries(const ConfigNode& node,
                                               const sched::PolicyRegistry& registry,
                                               std::vector<ConfigError>& errors) {
  std::vector<sched::LibrarySpec> libraries;
  std::set<std::string> wrong;
  if (node.kind != NodeKind::array) {
    errors.push_back(
        {node.file, node.line, "library",
         "found " + node.shown() + ", expected tables [[library]], with two brackets"});
    return libraries;
  }
  for (const ConfigNode& item : node.items) {
    sched::LibrarySpec library;
    const std::size_t before = errors.size();
    if (!read_library(item, registry, library, errors)) {
      const bool is_told = !library.path.empty() && !wrong.insert(library.path).second;
      if (is_told) errors.resize(before); // The same file was refused above.
      continue;
    }
    const bool is_repeated =
        std::any_of(libraries.begin(), libraries.end(),
                    [&](const sched::LibrarySpec& other) { return other.path == library.path; });
    libraries.push_back(std::move(library));
    const std::string twice =
        is_repeated ? "found " + libraries.back().path +
                          " twice, expected each library once; remove one of the tables"
                    : held_twice(libraries, registry);
    if (!twice.empty()) errors.push_back({item.file, item.line, "library.path", twice});
  }
  return libraries;
}

sched::ProbationSpec read_probation(const ConfigNode& node, std::vector<ConfigError>& errors) {
  constexpr std::int64_t kDayS = 86'400;
  sched::ProbationSpec out;
  if (node.kind != NodeKind::table) {
    errors.push_back({node.file, node.line, "probation",
                      "found " + node.shown() + ", expected a table [probation]"});
    return out;
  }
  read_table(node, "probation", errors, [&](OptionTable& table) {
    out.window_us = 1'000'000 * table.integer("window_s", out.window_us / 1'000'000, 0, kDayS);
    out.requests_min = table.integer("requests_min", out.requests_min, 1, 1'000'000'000);
    const auto ratio = [&](const char* key, std::int64_t& value) {
      value = table.thousandths(key, value, 0, kRatioPermilleMax);
    };
    ratio("ttft_p95_ratio", out.ttft_p95_permille);
    ratio("tpot_p95_ratio", out.tpot_p95_permille);
    ratio("goodput_ratio", out.goodput_permille);
    ratio("preemptions_ratio", out.preemptions_permille);
  });
  return out;
}

std::int64_t read_canary_share(const ConfigNode& canary, std::vector<ConfigError>& errors) {
  const auto share = canary.table.find("share");
  if (share == canary.table.end()) {
    errors.push_back({canary.file, canary.line, "canary.share",
                      "it is missing, expected the share of the sessions that the canary decides "
                      "for, from 0.001 to 1, as in share = 0.05"});
    return 0;
  }
  ConfigNode alone = canary;
  std::erase_if(alone.table, [](const auto& entry) { return entry.first != "share"; });
  std::int64_t permille = 0;
  read_table(alone, "canary", errors,
             [&](OptionTable& table) { permille = table.thousandths("share", 0, 1, 1000); });
  return permille;
}

} // namespace troupe::app
