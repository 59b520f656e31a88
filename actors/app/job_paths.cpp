#include "actors/app/job_paths.hpp"

#include "actors/app/replace_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <unistd.h>

namespace troupe::app {

namespace {

/// What replace_file makes for `report`: a draft of a name that might be somebody's.
std::string draft_of(const std::string& report) { return link_target(report) + ".tmp"; }

Status same_file(const NamedPath& written, const NamedPath& other) {
  return {ErrorCode::bad_argument, fmt::format("{}: the {} would be the same file as the {} ({}); "
                                               "give it its own path",
                                               written.path, written.what, other.what, other.path)};
}

/// One that is wanted against files that exist already or will be made.
Status check_report(const NamedPath& report, const std::vector<NamedPath>& others) {
  for (const NamedPath& other : others) {
    if (other.path.empty()) continue;
    if (is_same_file(report.path, other.path)) return same_file(report, other);
    if (is_same_file(draft_of(report.path), other.path))
      return same_file({draft_of(report.path), "draft of the " + report.what}, other);
  }
  return check_replaceable(report.path, report.what.c_str());
}

} // namespace

std::vector<NamedPath> model_files(const std::string& folder) {
  std::vector<NamedPath> files;
  const std::filesystem::path place(folder);
  for (const char* name : {"config.json", "model.safetensors.index.json", "tokenizer.json",
                           "encoding.json", "generation_config.json", "engram.json"})
    files.push_back({(place / name).string(), "model"});
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() == ".safetensors") files.push_back({at->path().string(), "model"});
  }
  return files;
}

Status check_reports(const ReportPaths& reports, const BatchPaths& paths) {
  std::vector<NamedPath> files = side_files(paths);
  files.insert(files.end(), {{paths.input == "-" ? "" : paths.input, "input"},
                             {paths.output, "output"},
                             {paths.errors, "errors"},
                             {paths.journal, "journal"}});
  for (const NamedPath& report :
       {NamedPath{reports.summary, "summary"}, NamedPath{reports.metrics, "metrics"}}) {
    if (report.path.empty()) continue;
    if (Status ok = check_report(report, files); !ok.ok()) return ok;
    files.push_back(report);
  }
  if (reports.summary.empty()) return {};
  const std::string folder = folder_of(link_target(reports.summary));
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return {ErrorCode::bad_argument,
          "--summary: cannot write into the folder " + folder + "; make it, or give another path"};
}

Status check_not_read(const ReportPaths& reports, const BatchPaths& paths,
                      const std::vector<NamedPath>& reads) {
  for (const NamedPath& written :
       {NamedPath{paths.output, "output"}, NamedPath{paths.errors, "errors"},
        NamedPath{paths.journal, "journal"}, NamedPath{reports.summary, "summary"},
        NamedPath{reports.metrics, "metrics"}}) {
    if (written.path.empty()) continue;
    for (const NamedPath& read : reads) {
      if (!read.path.empty() && is_same_file(written.path, read.path))
        return same_file(written, {read.path, read.what + " file"});
    }
  }
  return {};
}

} // namespace troupe::app
