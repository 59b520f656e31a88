// The progress line of a batch: one line that is redrawn on a terminal, else a line every 10 s.

#pragma once

#include <cstdint>
#include <string>

namespace troupe::app {

/// Requests of a job, as its progress line, `troupe top` and the metrics count them.
struct RequestCounts {
  std::int64_t running = 0; ///< On a rank, or on the way to one.
  std::int64_t waiting = 0; ///< Not yet routed to a rank.
};

/// @param running  that the driver has in the system; those that wait for a rank are among them
/// @param waiting  that the driver holds back until the system has room
/// @param queued   of the chunker: not yet routed
RequestCounts request_counts(std::int64_t running, std::int64_t waiting, std::int64_t queued);

/// Where a job stands.
struct ProgressState {
  std::int64_t succeeded = 0;
  std::int64_t failed = 0;
  std::int64_t total = -1; ///< -1 unknown.
  RequestCounts requests;
  std::int64_t run_done = 0;          ///< Lines done in this run: what the ETA counts from.
  std::int64_t prompt_tokens = 0;     ///< Of this run.
  std::int64_t completion_tokens = 0; ///< Of this run.
};

struct ProgressStyle {
  bool is_terminal = false; ///< Redraw one line.
  bool is_quiet = false;    ///< Print nothing.
  std::int64_t width = 80;  ///< Columns of the terminal.
};

/// Style for standard error: terminal or not, NO_COLOR and TERM=dumb respected.
ProgressStyle progress_style(bool is_quiet);

/// Decides when to print and what. Time is an argument; output is returned, never printed.
class ProgressLine {
public:
  explicit ProgressLine(const ProgressStyle& style) : style_(style) {}

  /// Text for standard error now, or "" when it is not time yet.
  std::string update(const ProgressState& state, std::int64_t now_us);

  /// Clears the line on a terminal: call it before anything else is printed.
  std::string clear();

private:
  std::string line(const ProgressState& state, std::int64_t now_us) const;

  ProgressStyle style_;
  bool is_started_ = false;
  bool is_drawn_ = false;
  std::int64_t start_us_ = 0;
  std::int64_t printed_us_ = 0;
  std::int64_t rate_us_ = 0; ///< Start of the window of the token rates.
  std::int64_t rate_prompt_tokens_ = 0;
  std::int64_t rate_completion_tokens_ = 0;
  double prompt_rate_ = 0.0;
  double completion_rate_ = 0.0;
};

} // namespace troupe::app
