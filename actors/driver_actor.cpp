#include "actors/driver_actor.hpp"

#include "schedulers/registry/policy_registry.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

namespace troupe::actors {

namespace {

using Self = caf::stateful_actor<DriverState>;

constexpr std::chrono::seconds kTickEvery{1};

void send_to(Self& self, const caf::actor& to, caf::message message) {
  if (!to) return;
  ++self.state.context.counters->messages;
  self.send(to, std::move(message));
}

template <class M>
void tell_text(Self& self, M message) {
  send_to(self, self.state.context.peers->text, caf::make_message(std::move(message)));
}

template <class M>
void tell_store(Self& self, M message) {
  send_to(self, self.state.context.peers->store, caf::make_message(std::move(message)));
}

void tell_listener(Self& self) {
  DriverState& state = self.state;
  const auto& counts = state.stage->counts();
  state.job.running = counts.live;
  state.job.waiting = static_cast<std::int64_t>(state.ready.size());
  if (state.context.peers->listener) self.send(state.context.peers->listener, state.job);
}

void end_job(Self& self, bool complete, ErrorCode code, const std::string& message) {
  JobState& job = self.state.job;
  if (job.ended) return;
  job.ended = true;
  job.complete = complete;
  job.code = code;
  job.message = message;
  tell_listener(self);
}

/// Lets requests in while there is room, asks for lines, and ends the job when all is done.
void go_on(Self& self) {
  DriverState& state = self.state;
  if (state.job.ended) return;
  RequestId request{};
  while (state.stage->counts().live < state.requests_max && state.window.next_request(request)) {
    const auto found = state.ready.find(request);
    TROUPE_CHECK(found != state.ready.end(), "a request without its work");
    sched::Arrive arrive{request, std::move(found->second.tenant), found->second.priority,
                         std::move(found->second.work), found->second.session_hash};
    if (state.context.ledger) {
      state.context.ledger->append(sched::RequestNamed{request, std::move(found->second.custom_id)},
                                   now_us(self));
    }
    state.ready.erase(found);
    if (state.watch.arrives) state.watch.arrives(arrive);
    state.handle(self, arrive);
  }
  if (const std::int64_t lines = state.window.ask(); lines > 0) tell_store(self, ReadLines{lines});
  if (state.window.awaits_store()) tell_store(self, Tick{});
  if (state.window.drained() && !state.closing) {
    state.closing = true;
    tell_store(self, CloseJob{state.window.complete()});
  }
}

/// A line goes back to the input: its requests stop, nothing is written for it.
void drop_line(Self& self, std::int64_t line) {
  DriverState& state = self.state;
  const auto begin = state.ready.lower_bound(request_of(line, 0));
  const auto end = state.ready.lower_bound(request_of(line + 1, 0));
  state.ready.erase(begin, end);
  const std::int64_t started = state.window.started_requests(line);
  state.window.written(line);
  tell_text(self, DropLine{line});
  for (std::int64_t choice = 0; choice < started; ++choice) {
    state.handle(self, sched::Abandon{request_of(line, choice), ErrorCode::cancelled});
  }
}

void take_lines(Self& self, const Lines& lines) {
  DriverState& state = self.state;
  for (const JobLine& line : lines.lines) {
    state.window.delivered(line.line);
    if (!state.window.contains(line.line)) continue;
    if (line.refusal.empty()) {
      tell_text(self, Render{line});
    } else {
      state.window.answered(line.line);
      tell_store(self, Answer{line.line, true, line.refusal, 0, 0});
    }
  }
  state.window.answered_ask(lines.end);
}

void take_rendered(Self& self, const Rendered& rendered) {
  DriverState& state = self.state;
  const auto choices = static_cast<std::int64_t>(rendered.choices.size());
  if (!state.window.rendered(rendered.line, choices)) return;
  for (std::int64_t choice = 0; choice < choices; ++choice) {
    state.ready.emplace(request_of(rendered.line, choice),
                        rendered.choices[static_cast<std::size_t>(choice)]);
  }
}

void take_written(Self& self, const Written& written) {
  DriverState& state = self.state;
  for (const std::int64_t line : written.lines)
    state.window.written(line);
  state.job.run_done += static_cast<std::int64_t>(written.lines.size());
  state.job.succeeded = written.succeeded;
  state.job.failed = written.failed;
}

void take_interrupt(Self& self, std::int32_t level) {
  DriverState& state = self.state;
  const auto lines = level >= 2 ? state.window.stop_all() : state.window.interrupt();
  for (const std::int64_t line : lines)
    drop_line(self, line);
}

/// Nothing can run any more: what has no answer is left for the next run.
void take_no_rank_left(Self& self, const sched::NoRankLeft& left) {
  DriverState& state = self.state;
  state.no_rank = left.detail;
  state.handle(self, left);
  for (const std::int64_t line : state.window.stop_all())
    drop_line(self, line);
}

void take_store_state(Self& self, const StoreState& store) {
  DriverState& state = self.state;
  if (store.code == ErrorCode::ok && !state.no_rank.empty()) {
    end_job(self, false, ErrorCode::no_rank,
            state.no_rank + "; what was answered is kept, the other lines are left");
    return;
  }
  if (store.code == ErrorCode::ok) {
    end_job(self, state.window.complete(), ErrorCode::ok, {});
    return;
  }
  for (const std::int64_t line : state.window.stop_all())
    drop_line(self, line);
  end_job(self, false, store.code, store.message);
}

/// What the guardrails see of a request; one that was given up says nothing about policies.
void tell_manager(Self& self, const sched::Finish& finish) {
  if (finish.code == ErrorCode::cancelled) return;
  const std::int64_t gaps = finish.output_tokens - 1;
  sched::RequestEnded ended{finish.code == ErrorCode::ok, 0, -1, finish.preemptions,
                            self.state.stage->counts().live};
  if (finish.output_tokens > 0) ended.ttft_us = finish.first_token_us - finish.arrival_us;
  if (gaps > 0) ended.tpot_us = (finish.end_us - finish.first_token_us) / gaps;
  send_to(self, self.state.context.peers->manager, caf::make_message(ended));
}

void take_finish(Self& self, const sched::Finish& finish) {
  DriverState& state = self.state;
  if (finish.code == ErrorCode::no_rank) return; // Its line goes back to the input.
  tell_manager(self, finish);
  if (state.watch.finishes) state.watch.finishes(finish);
  tell_text(self, Complete{finish.request, finish.code, finish.end, finish.detail});
}

void perform_other(Self& self, sched::Effect& effect) {
  DriverState& state = self.state;
  if (auto* emit = std::get_if<sched::Emit>(&effect)) {
    state.window.decoding(emit->request);
    state.job.output_tokens += static_cast<std::int64_t>(emit->rows.size());
    tell_text(self, Detokenise{emit->request, std::move(emit->rows)});
  } else if (auto* finish = std::get_if<sched::Finish>(&effect)) {
    take_finish(self, *finish);
  } else if (auto* stuck = std::get_if<sched::Stuck>(&effect)) {
    spdlog::warn("request {} (line {}) is silent for {} s: it waits for {}", raw(stuck->request),
                 line_of(stuck->request) + 1, stuck->silent_us / 1'000'000, stuck->waits_for);
  } else {
    TROUPE_CHECK(false, "an effect the driver cannot perform");
  }
}

} // namespace

caf::behavior driver_actor(caf::stateful_actor<DriverState>* self, DriverConfig config) {
  DriverState& state = self->state;
  state.name = "driver";
  state.context = std::move(config.context);
  state.window = JobWindow(config.inflight_max);
  state.requests_max = config.options.requests_max;
  state.job.succeeded = config.succeeded;
  state.job.failed = config.failed;
  state.watch = std::move(config.watch);
  state.begin_life(*self, config.options, config.policies);
  state.stage =
      std::make_unique<sched::DriverStage>(config.options, config.policies, *config.registry);
  state.other = [self](sched::Effect& effect) { perform_other(*self, effect); };
  drop_unexpected(*self, state.context.counters);
  const auto take = [self](const auto& event) {
    self->state.handle(*self, event);
    go_on(*self);
  };
  return {
      [=](const Start&) {
        self->delayed_send(self, kTickEvery, Tick{});
        go_on(*self);
      },
      [=](const Tick&) {
        tell_listener(*self);
        if (!self->state.job.ended) self->delayed_send(self, kTickEvery, Tick{});
      },
      [=](const sched::Tokens& m) { take(m); },
      [=](const sched::Ended& m) { take(m); },
      [=](const sched::Load& m) { take(m); },
      [=](const sched::RankUp& m) { take(m); },
      [=](const sched::RankDown& m) { take(m); },
      [=](const sched::SwapPrepare& m) { take(m); },
      [=](const sched::SwapCommit& m) { take(m); },
      [=](const sched::SwapAbort& m) { take(m); },
      [=](const sched::NoRankLeft& m) {
        take_no_rank_left(*self, m);
        go_on(*self);
      },
      [=](const WakeUp& up) { self->state.wake(*self, up, take); },
      [=](const StopFound& m) { take(sched::StopSeen{m.request}); },
      [=](const Lines& m) {
        take_lines(*self, m);
        go_on(*self);
      },
      [=](const Rendered& m) {
        take_rendered(*self, m);
        go_on(*self);
      },
      [=](const Answer& m) {
        if (self->state.window.answered(m.line)) {
          self->state.job.prompt_tokens += m.prompt_tokens;
          tell_store(*self, m);
          go_on(*self);
        }
      },
      [=](const Written& m) {
        take_written(*self, m);
        go_on(*self);
      },
      [=](const Interrupt& m) {
        take_interrupt(*self, m.level);
        go_on(*self);
      },
      [=](const StoreState& m) { take_store_state(*self, m); },
      [=](const Stop&) { self->quit(); },
  };
}

} // namespace troupe::actors
