// A child process that says how far it is, bounded in time and gone at the end whatever it does.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace troupe::actors {

/// The descriptor on which a child reports: a line "at PHASE" when a phase begins, and at the end
/// "ok" or "no REASON". Any other line is for whoever started it.
inline constexpr int kReportDescriptor = 3;

struct ChildOrder {
  std::string program;
  std::vector<std::string> arguments;                   ///< Without the name of the program.
  std::int64_t start_ms = 10'000;                       ///< Until its first line.
  std::int64_t phase_ms = 5'000;                        ///< From one line to the next one.
  std::function<void(const std::string&)> on_line = {}; ///< Told of every other line; may be empty.
};

/// How a child ended.
struct ChildEnd {
  enum class How : std::uint8_t { said_ok, said_no, exited, killed, hung, not_started };
  How how = How::not_started;
  int number = 0;      ///< Exit code, signal, or errno when it was not started.
  std::string phase;   ///< The last one that began; "" = none.
  std::string reason;  ///< With said_no.
  std::string printed; ///< The end of what it wrote to its standard streams.
};

/// Runs it to its end, or kills it when a phase takes too long; all that it started ends with it.
///
/// Its standard input is empty, its only other open descriptors are the standard ones and
/// kReportDescriptor, and TROUPE_PREFLIGHT is set in its environment.
ChildEnd run_child(const ChildOrder& order);

/// Kills what `root` started, and what that started, as far as /proc tells; `root` itself lives.
void end_descendants(int root);

} // namespace troupe::actors
