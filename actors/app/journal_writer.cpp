#include "actors/app/journal_writer.hpp"

#include <chrono>
#include <utility>

namespace troupe::app {

namespace {

using Self = caf::stateful_actor<JournalWriterState>;

constexpr std::chrono::milliseconds kAskAgain{20};

template <class M>
void tell_driver(Self& self, const JournalWriterConfig& config, M message) {
  ++config.counters->messages;
  self.send(config.peers->driver, std::move(message));
}

void fail(Self& self, const JournalWriterConfig& config, const Error& error) {
  if (std::exchange(self.state.failed, true)) return;
  tell_driver(self, config, actors::StoreState{error.code, error.message});
}

actors::JobLine job_line(const JobFacts& facts, const PendingLine& pending) {
  actors::JobLine line;
  line.line = pending.index;
  line.custom_id = pending.outcome.line.custom_id;
  if (pending.outcome.ok()) {
    line.is_chat = pending.outcome.line.endpoint == text::Endpoint::chat_completions;
    line.body = pending.outcome.line.body;
  } else {
    line.refusal = unreadable_line(facts.job_id, pending.number, *pending.outcome.error);
  }
  return line;
}

void read_lines(Self& self, const JournalWriterConfig& config, std::int64_t count) {
  if (self.state.failed || self.state.closed) return;
  Result<NextLines> next = self.state.job->next_lines(count);
  if (!next.ok()) return fail(self, config, next.error());
  if (next->lines.empty() && !next->at_end) {
    // Standard input has nothing yet: the mailbox gets its turn, then ask again.
    self.delayed_send(&self, kAskAgain, actors::ReadLines{count});
    return;
  }
  actors::Lines lines;
  lines.end = next->at_end;
  for (const PendingLine& pending : next->lines) {
    lines.lines.push_back(job_line(self.state.job->facts(), pending));
  }
  tell_driver(self, config, std::move(lines));
}

void flush(Self& self, const JournalWriterConfig& config) {
  JournalWriterState& state = self.state;
  if (state.failed || state.waiting.empty()) return;
  const std::vector<LineResult> results = std::exchange(state.waiting, {});
  const Status status = state.job->commit(results);
  if (!status.ok()) return fail(self, config, status.error());
  actors::Written written;
  for (const LineResult& result : results)
    written.lines.push_back(result.index);
  written.succeeded = state.job->facts().succeeded;
  written.failed = state.job->facts().failed;
  tell_driver(self, config, std::move(written));
}

void close(Self& self, const JournalWriterConfig& config, bool finished) {
  flush(self, config);
  self.state.closed = true;
  if (self.state.failed) return;
  const Status status = finished ? self.state.job->finish() : self.state.job->stop();
  if (!status.ok()) return fail(self, config, status.error());
  tell_driver(self, config, actors::StoreState{});
}

} // namespace

caf::behavior journal_writer(Self* self, JournalWriterConfig config) {
  self->state.job = config.job;
  actors::drop_unexpected(*self, config.counters);
  const auto flush_every = std::chrono::microseconds{config.flush_us};
  return {
      [=](const actors::ReadLines& m) { read_lines(*self, config, m.count); },
      [=](const actors::Answer& m) {
        JournalWriterState& state = self->state;
        state.waiting.push_back({m.line, !m.is_error, m.text, m.prompt_tokens, m.output_tokens});
        const auto waiting = static_cast<std::int64_t>(state.waiting.size());
        if (config.flush_us == 0 || waiting >= config.flush_lines) {
          flush(*self, config);
        } else if (!std::exchange(state.timer_set, true)) {
          self->delayed_send(self, flush_every, actors::Tick{});
        }
      },
      [=](const actors::Tick&) {
        self->state.timer_set = false;
        flush(*self, config);
      },
      [=](const actors::CloseJob& m) { close(*self, config, m.finished); },
      [=](const actors::Stop&) { self->quit(); },
  };
}

} // namespace troupe::app
