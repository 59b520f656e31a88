// Ctrl-C, SIGTERM and a closed terminal as a counter that the main loop looks at.

#pragma once

namespace troupe::app {

/// From now on SIGINT, SIGTERM and SIGHUP only count. The third one ends the process at once.
void watch_signals();

/// How many have come.
int signals_seen() noexcept;

/// 143 when the last one was SIGTERM, else 130.
int last_signal_exit_code() noexcept;

} // namespace troupe::app
