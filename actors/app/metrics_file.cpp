#include "actors/app/metrics_file.hpp"

#include "actors/app/replace_file.hpp"

#include <spdlog/spdlog.h>

#include <utility>

namespace troupe::app {

MetricsFile::MetricsFile(std::string path, std::int64_t interval_us)
    : path_(std::move(path)), interval_us_(interval_us) {}

bool MetricsFile::is_due(std::int64_t now_us) const noexcept {
  return is_wanted() && now_us >= next_us_;
}

void MetricsFile::write(std::string_view text, std::int64_t now_us) {
  next_us_ = now_us + interval_us_;
  const Status written = replace_file(path_, text, "metrics");
  if (written.ok()) return;
  if (failures_++ == 0) spdlog::warn("{}; the job goes on", written.error().message);
}

} // namespace troupe::app
