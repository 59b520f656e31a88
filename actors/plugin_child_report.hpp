// What the child processes of plugin_child.hpp say, and how their end is told to people.

#pragma once

#include "actors/plugin_child.hpp"
#include "schedulers/core/result.hpp"

#include <cstdint>
#include <string>

namespace troupe::actors {

// -- In the child --

/// Phase of what end_traces() finds.
inline constexpr const char* kPhaseOfTraces = "process";

/// Nothing is left of this process when its parent dies, and it leaves no core file. Before the
/// library is loaded: what it does to the process from here on is found by report_verdict().
void begin_child();

/// One line for the parent; line breaks become blanks. In a copy of this process: ends the copy.
void report_line(const std::string& line);

/// The last line, "ok" or "no REASON"; ends the process without destructors, and all that it
/// started. What the library changed in the process is a reason, see plugin_traces.hpp.
[[noreturn]] void report_verdict(const Status& status);

// -- In the parent --

/// "SIGKILL", or "signal 63" for one without a name.
std::string signal_text(int number);

/// What became of the child: signal, exit code or time, with the phase it was in; "" when it said
/// that all is well.
std::string what_happened(const ChildEnd& end, std::int64_t phase_ms);

} // namespace troupe::actors
