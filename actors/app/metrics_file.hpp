// The file that metrics are written to while a job runs, replaced as a whole each time.
//
// A file that cannot be written warns once, counts, and the job goes on.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::app {

/// Thread: one owner.
class MetricsFile {
public:
  /// @param path  "" = none is wanted
  MetricsFile(std::string path, std::int64_t interval_us);

  bool is_wanted() const noexcept { return !path_.empty(); }
  /// True at first and `interval_us` after the last write.
  bool is_due(std::int64_t now_us) const noexcept;
  void write(std::string_view text, std::int64_t now_us);
  std::int64_t failures() const noexcept { return failures_; }

private:
  std::string path_;
  std::int64_t interval_us_;
  std::int64_t next_us_ = 0;
  std::int64_t failures_ = 0;
};

} // namespace troupe::app
