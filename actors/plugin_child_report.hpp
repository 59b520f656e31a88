// What the child processes of plugin_child.hpp say, and how their end is told to people.

#pragma once

#include "actors/plugin_child.hpp"
#include "schedulers/core/result.hpp"

#include <cstdint>
#include <string>

namespace troupe::actors {

// -- In the child --

/// Nothing is left of this process when its parent dies, and it leaves no core file.
void begin_child();

/// One line for the parent; line breaks become blanks.
void report_line(const std::string& line);

/// The last line, "ok" or "no REASON"; ends the process without destructors.
[[noreturn]] void report_verdict(const Status& status);

// -- In the parent --

/// What became of the child: signal, exit code or time, with the phase it was in; "" when it said
/// that all is well.
std::string what_happened(const ChildEnd& end, std::int64_t phase_ms);

} // namespace troupe::actors
