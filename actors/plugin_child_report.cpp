#include "actors/plugin_child_report.hpp"

#include "actors/plugin_traces.hpp"
#include "schedulers/core/printable.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace troupe::actors {
namespace {

/// The last line of what a child printed, when it says something.
std::string last_words(std::string printed) {
  while (!printed.empty() && printed.back() == '\n')
    printed.pop_back();
  const std::string line = printed.substr(printed.rfind('\n') + 1);
  return line.empty() ? "" : "; it printed: " + printable(line, 300);
}

} // namespace

std::string signal_text(int number) {
  const char* short_name = ::sigabbrev_np(number);
  return short_name != nullptr ? fmt::format("SIG{}", short_name)
                               : fmt::format("signal {}", number);
}

void begin_child() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_DUMPABLE, 0);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  begin_traces();
}

void report_line(const std::string& line) {
  if (!is_traced_process()) ::_exit(0);
  std::string one_line = line;
  for (char& c : one_line) {
    if (c == '\n') c = ' ';
  }
  one_line += '\n';
  // A parent that is gone wants no report.
  static_cast<void>(!::write(kReportDescriptor, one_line.data(), one_line.size()));
}

void report_verdict(const Status& status) {
  if (!is_traced_process()) ::_exit(0);
  const Status left = end_traces();
  if (status.ok() && !left.ok()) report_line(std::string("at ") + kPhaseOfTraces);
  const Status& said = status.ok() ? left : status;
  report_line(said.ok() ? "ok" : "no " + said.error().message);
  std::_Exit(0);
}

std::string what_happened(const ChildEnd& end, std::int64_t phase_ms) {
  const std::string phase = end.phase.empty() ? "start" : end.phase;
  switch (end.how) {
  case ChildEnd::How::said_ok:
    return {};
  case ChildEnd::How::said_no:
    return end.reason;
  case ChildEnd::How::killed:
    return fmt::format("{} ended the process with {}{}", phase, signal_text(end.number),
                       last_words(end.printed));
  case ChildEnd::How::exited:
    return fmt::format("{} ended the process with exit code {}{}", phase, end.number,
                       last_words(end.printed));
  case ChildEnd::How::hung:
    return end.phase.empty() ? "the process did not begin in time" + last_words(end.printed)
                             : fmt::format("{} did not return within {} ms", phase, phase_ms);
  case ChildEnd::How::not_started:
    return fmt::format("no process could be started: {}", std::strerror(end.number));
  }
  return "unknown";
}

} // namespace troupe::actors
