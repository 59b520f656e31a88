// What the surroundings do to a process: signals as a counter that the main loop looks at,
// standard streams that nobody opened, and ends that nobody asked for.

#pragma once

namespace troupe::app {

/// Opens /dev/null for each of the descriptors 0, 1 and 2 that is closed: otherwise the next file
/// would get its number, and messages would be written into it. Reading descriptor 0 and writing
/// descriptor 1 then fail. Call first.
void open_standard_streams() noexcept;

/// False, with a message, when the stack is too small (ulimit -s): calls would run beyond its end
/// later, which ends a process without a word. Each thread gets a stack of that limit too.
bool has_stack_room() noexcept;

/// Under a limit of the address space an abort is a failure with a message: the C library ends a
/// process itself when it has no room for a thread's destructors. Without one, aborts leave cores.
void explain_aborts() noexcept;

/// While it lives, exit() by whoever calls it ends the process with exit code 1 and a message: a
/// library must not make an unfinished job look finished. One that calls _exit() cannot be caught.
/// Thread: any; one at a time.
class ExitGuard {
public:
  ExitGuard() noexcept;
  ~ExitGuard();
  ExitGuard(const ExitGuard&) = delete;
  ExitGuard& operator=(const ExitGuard&) = delete;
};

/// A reader that goes away, or a file that reaches its limit, ends a write with an error and not
/// the process.
void ignore_write_signals() noexcept;

/// An exception that nothing catches, as in a thread of a library, ends the process with a message
/// and exit code 1.
void explain_termination() noexcept;

/// From now on SIGINT, SIGTERM and SIGHUP only count. The third one ends the process at once. One
/// that is ignored already stays so: `nohup` and background jobs of a shell mean it.
void watch_signals();

/// How many have come.
int signals_seen() noexcept;

/// 130 when the last one was SIGINT, else 143.
int last_signal_exit_code() noexcept;

} // namespace troupe::app
