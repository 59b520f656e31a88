// Which paths a batch job may write to: none of them over what it reads, none over another.

#pragma once

#include "actors/app/batch_files.hpp"
#include "schedulers/core/result.hpp"

#include <string>
#include <vector>

namespace troupe::app {

/// The files of a checkpoint folder that a job reads: the JSON files it knows and all shards.
std::vector<NamedPath> model_files(const std::string& folder);

/// What a job writes beside its results; "" = not wanted.
struct ReportPaths {
  std::string summary;
  std::string metrics;
};

/// Refuses a report that is a file of the job, the other report, in a folder that is missing or may
/// not be written (summary), or of a kind that cannot be written.
Status check_reports(const ReportPaths& reports, const BatchPaths& paths);

/// Refuses results and reports that would be written over a file the job reads, by link too.
Status check_not_read(const ReportPaths& reports, const BatchPaths& paths,
                      const std::vector<NamedPath>& reads);

} // namespace troupe::app
