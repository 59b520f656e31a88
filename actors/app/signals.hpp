// What the surroundings do to a process: signals as a counter that the main loop looks at, and
// standard streams that nobody opened.

#pragma once

namespace troupe::app {

/// Opens /dev/null for each of the descriptors 0, 1 and 2 that is closed: otherwise the next file
/// would get its number, and messages would be written into it. Call first.
void open_standard_streams() noexcept;

/// From now on SIGINT, SIGTERM and SIGHUP only count. The third one ends the process at once.
void watch_signals();

/// How many have come.
int signals_seen() noexcept;

/// 143 when the last one was SIGTERM, else 130.
int last_signal_exit_code() noexcept;

} // namespace troupe::app
