// The journal writer: reads pending lines of a job and makes answers durable, on its own thread.

#pragma once

#include "actors/app/journal.hpp"
#include "actors/messages.hpp"
#include "actors/shell.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace troupe::app {

struct JournalWriterConfig {
  std::shared_ptr<const actors::Peers> peers;
  std::shared_ptr<actors::ShellCounters> counters;
  std::shared_ptr<BatchJob> job;
  std::int64_t flush_us = 200'000; ///< 0: flush after every answer.
  std::int64_t flush_lines = 64;   ///< Also when so many answers wait, so that the window moves on.
};

struct JournalWriterState {
  std::shared_ptr<BatchJob> job;
  std::vector<LineResult> waiting; ///< Bounded by the lines in work.
  bool timer_set = false;
  bool failed = false;
  bool closed = false; ///< No line is read any more.
};

/// Takes ReadLines, Answer, CloseJob from the driver, and Tick: what waits is written at once.
caf::behavior journal_writer(caf::stateful_actor<JournalWriterState>* self,
                             JournalWriterConfig config);

} // namespace troupe::app
