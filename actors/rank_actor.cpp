#include "actors/rank_actor.hpp"

#include "schedulers/registry/policy_registry.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <type_traits>
#include <utility>

namespace troupe::actors {

namespace {

using Self = caf::stateful_actor<RankState>;

constexpr std::chrono::milliseconds kPollEvery{1};

/// What a step that is done did.
sched::StepDone done_of(RankState& state, const StepWork& work) {
  sched::StepDone done;
  if (work.result->ok()) {
    done = take_result(work.asked, **work.result, *state.log);
  } else {
    spdlog::error("{}: step {} failed: {}", state.name, work.asked.step,
                  work.result->error().message);
    done.step = work.asked.step;
    done.code = work.result->error().code;
  }
  done.idle_us = state.lane->last_idle_us();
  return done;
}

void end_step(Self& self, const std::shared_ptr<StepWork>& work) {
  RankState& state = self.state;
  const sched::StepDone done = done_of(state, *work);
  state.spare.push_back(work);
  state.handle(self, done);
}

/// Tells of a step that a lane without thread has worked off, at the time it would take.
void tell_later(Self& self, std::uint64_t ticket, const StepWork& work) {
  RankState& state = self.state;
  const std::int64_t now = now_us(self);
  const std::int64_t takes_us =
      state.modelled_time && work.result->ok() ? (*work.result)->compute_us : 0;
  state.device_free_us = std::max(state.device_free_us, now) + takes_us;
  const std::int64_t after_us = state.device_free_us - now;
  if (after_us > 0) {
    self.delayed_send(&self, std::chrono::microseconds{after_us}, LaneDone{ticket});
  } else {
    self.send(&self, LaneDone{ticket});
  }
}

void run_step(Self& self, sched::RunStep& step) {
  RankState& state = self.state;
  if (state.spare.empty()) state.spare.push_back(std::make_shared<StepWork>());
  const std::shared_ptr<StepWork> work = std::move(state.spare.back());
  state.spare.pop_back();
  work->asked = std::move(step);
  build_plan(work->asked, *state.log, work->planned);
  const std::uint64_t ticket = state.lane->submit(
      {true, [runner = state.runner.get(), work] { work->result = runner->run(work->planned); },
       [&self, work] { end_step(self, work); }});
  if (!state.lane->has_thread() && !state.pulse->fenced()) tell_later(self, ticket, *work);
}

/// A call of the engine that is no step; `then` gets its result on the actor's thread.
template <class Call, class Then>
void call_engine(RankState& state, Call call, Then then) {
  using Answer = std::invoke_result_t<Call&, engine::Engine&>;
  const auto answer = std::make_shared<std::optional<Answer>>();
  state.lane->submit({false,
                      [engine = state.engine.get(), call = std::move(call), answer]() mutable {
                        answer->emplace(call(*engine));
                      },
                      [then = std::move(then), answer]() mutable { then(std::move(**answer)); }});
}

/// Registers slot, blocks and token log, and describes them.
Result<std::string> register_sequence(RankState& state, RequestRef ref,
                                      const engine::KvExport& exported) {
  const SequenceLog* log = state.log->find(ref);
  TROUPE_CHECK(log != nullptr, "an export of a sequence without token log");
  RegisteredSequence& registered = state.registered[ref];
  registered.log = encode(*log);
  HandoffRecord record;
  record.address = state.transport->address();
  record.manifest = exported.manifest;
  const auto add = [&](std::span<const std::byte> bytes) -> Result<std::uint64_t> {
    auto region = state.transport->register_region(bytes);
    if (!region.ok()) return region.error();
    registered.regions.push_back(*region);
    return raw(*region);
  };
  for (const auto& region : exported.regions) {
    auto id = add(region);
    if (!id.ok()) return id.error();
    record.region_ids.push_back(*id);
  }
  const auto bytes = std::as_bytes(std::span<const char>(registered.log));
  auto id = add(bytes);
  if (!id.ok()) return id.error();
  record.log_region_id = *id;
  record.log = {static_cast<std::int64_t>(bytes.size()), digest_of(bytes)};
  return encode(record);
}

void export_sequence(Self& self, sched::ExportSequence& wanted) {
  RankState& state = self.state;
  const RequestRef ref = wanted.ref;
  call_engine(
      state,
      [wanted = std::move(wanted)](engine::Engine& engine) {
        return engine.export_kv(wanted.slot, wanted.blocks);
      },
      [&self, ref](const Result<engine::KvExport>& exported) {
        RankState& own = self.state;
        auto manifest = exported.ok() ? register_sequence(own, ref, *exported)
                                      : Result<std::string>(exported.error());
        if (!manifest.ok()) spdlog::error("{}: {}", own.name, manifest.error().message);
        self.send(&self, sched::Exported{ref, manifest.status().error().code,
                                         manifest.ok() ? std::move(*manifest) : std::string{}});
      });
}

void forget(RankState& state, RequestRef ref) {
  state.log->forget(ref);
  const auto found = state.registered.find(ref);
  if (found == state.registered.end()) return;
  for (const auto region : found->second.regions)
    state.transport->deregister_region(region);
  state.registered.erase(found);
}

sched::Imported import_failed(const sched::Pull& pull, const Error& error) {
  return {pull.ref, pull.handoff, error.code, {}, error.message};
}

/// Starts reading a sequence into `regions`; the error says why it could not start.
Status start_pull(RankState& state, PendingPull pull,
                  const Result<std::vector<std::span<std::byte>>>& regions) {
  if (!regions.ok()) return regions.status();
  if (regions->size() != pull.record.region_ids.size()) {
    return {ErrorCode::mismatch,
            "the source hands over " + std::to_string(pull.record.region_ids.size()) +
                " regions, the target holds " + std::to_string(regions->size())};
  }
  pull.log.resize(static_cast<std::size_t>(pull.record.log.bytes));
  std::vector<transport::ReadRequest> reads;
  for (std::size_t i = 0; i < regions->size(); ++i) {
    reads.push_back({transport::RegionId{pull.record.region_ids[i]}, 0, (*regions)[i]});
  }
  reads.push_back({transport::RegionId{pull.record.log_region_id}, 0, pull.log});
  auto transfer = state.transport->submit(pull.record.address, std::move(reads));
  if (!transfer.ok()) return transfer.status();
  state.pulls.emplace(*transfer, std::move(pull));
  return {};
}

/// A sequence whose bytes the engine found whole, with its token log.
sched::Imported imported(RankState& state, const PendingPull& pull, SequenceLog log) {
  sched::Imported out;
  out.ref = pull.wanted.pull.ref;
  out.handoff = pull.wanted.pull.handoff;
  out.digest = digest_of(pull.record);
  out.positions = pull.record.manifest.positions;
  out.answered = log.answered();
  out.new_tokens_max = log.work.new_tokens_max;
  state.log->put(out.ref, std::move(log));
  return out;
}

Result<SequenceLog> log_of(const PendingPull& pull) {
  if (digest_of(std::span<const std::byte>(pull.log)) != pull.record.log.digest) {
    return {ErrorCode::bad_digest, "the token log arrived damaged"};
  }
  return decode_sequence_log(pull.log);
}

/// Checks what arrived: the token log here, all regions in the engine.
void finish_pull(Self& self, PendingPull pull, const Status& status) {
  auto log = status.ok() ? log_of(pull) : Result<SequenceLog>(status.error());
  if (!log.ok()) {
    self.send(&self, import_failed(pull.wanted.pull, log.error()));
    return;
  }
  const auto kept = std::make_shared<PendingPull>(std::move(pull));
  call_engine(
      self.state,
      [kept](engine::Engine& engine) {
        return engine.import_kv(kept->record.manifest, kept->wanted.slot, kept->wanted.blocks);
      },
      [&self, kept, log = std::move(*log)](const Status& whole) mutable {
        self.send(&self, whole.ok() ? imported(self.state, *kept, std::move(log))
                                    : import_failed(kept->wanted.pull, whole.error()));
      });
}

void poll_transport(Self& self) {
  RankState& state = self.state;
  for (const transport::Completion& completion : state.transport->poll()) {
    const auto found = state.pulls.find(completion.transfer);
    if (found == state.pulls.end()) continue;
    PendingPull pull = std::move(found->second);
    state.pulls.erase(found);
    finish_pull(self, std::move(pull), completion.status);
  }
  if (!state.pulls.empty()) self.delayed_send(&self, kPollEvery, PollTransport{});
}

void import_sequence(Self& self, sched::ImportSequence& wanted) {
  auto record = decode_handoff(wanted.pull.manifest);
  if (!record.ok()) {
    self.send(&self, import_failed(wanted.pull, record.error()));
    return;
  }
  const auto pull =
      std::make_shared<PendingPull>(PendingPull{std::move(wanted), std::move(*record), {}});
  call_engine(
      self.state,
      [pull](engine::Engine& engine) {
        return engine.import_regions(pull->wanted.slot, pull->wanted.blocks);
      },
      [&self, pull](const Result<std::vector<std::span<std::byte>>>& regions) {
        const sched::Pull asked = pull->wanted.pull;
        const Status started = start_pull(self.state, std::move(*pull), regions);
        if (started.ok()) {
          poll_transport(self);
        } else {
          self.send(&self, import_failed(asked, started.error()));
        }
      });
}

void perform_other(Self& self, sched::Effect& effect) {
  RankState& state = self.state;
  if (auto* step = std::get_if<sched::RunStep>(&effect)) {
    run_step(self, *step);
  } else if (auto* wanted = std::get_if<sched::ExportSequence>(&effect)) {
    export_sequence(self, *wanted);
  } else if (auto* import = std::get_if<sched::ImportSequence>(&effect)) {
    import_sequence(self, *import);
  } else if (auto* gone = std::get_if<sched::Forget>(&effect)) {
    forget(state, gone->ref);
  } else {
    TROUPE_CHECK(false, "an effect a rank cannot perform");
  }
}

/// Ends this life as soon as its engine has returned: until then its memory is in use.
void leave(Self& self) {
  if (!self.state.lane->close()) self.quit();
}

/// Runs a call of this life and takes down what it left in the accounts. A life that was given up
/// meanwhile ends instead.
template <class Call>
void work(Self& self, Call call) {
  RankState& state = self.state;
  if (!state.pulse->fenced() && !state.stopping) {
    const RankPulse::Work piece(state.pulse->actor());
    const sched::RankCounts before = state.stage->counts();
    call();
    const sched::RankCounts& after = state.stage->counts();
    state.lane->note_work(state.stage->has_work());
    if (!state.pulse->fenced()) {
      state.totals->steps += after.steps - before.steps;
      state.totals->steps_ahead += after.steps_ahead - before.steps_ahead;
      state.totals->busy_us += after.busy_us - before.busy_us;
      state.totals->idle_us += state.lane->idle_us() - state.idle_told_us;
      state.idle_told_us = state.lane->idle_us();
      state.totals->preempted += after.preempted - before.preempted;
      state.totals->kv_blocks_held = after.kv_blocks_reserved;
      state.totals->kv_blocks_free = after.kv_blocks_free;
      state.totals->slots_held = after.slots_reserved;
      state.totals->slots_free = after.slots_free;
    }
  }
  if (state.pulse->fenced() || state.stopping) leave(self);
}

template <class Event>
void take(Self& self, const Event& event) {
  work(self, [&] { self.state.handle(self, event); });
}

/// A lane on a thread of its own, or one that runs where it is called.
std::unique_ptr<EngineLane> open_lane(Self& self, bool thread) {
  if (!thread) return std::make_unique<EngineLane>(self.state.pulse, nullptr);
  const auto owner = caf::actor_cast<caf::actor>(&self);
  return std::make_unique<EngineLane>(
      self.state.pulse, [owner](std::uint64_t ticket) { caf::anon_send(owner, LaneDone{ticket}); });
}

/// The token log begins with the first Assign; a repeated or a stale one must not touch it.
void assign(Self& self, const sched::Assign& given) {
  RankState& state = self.state;
  if (given.rank == state.rank && state.log->find(given.ref) == nullptr) {
    state.log->put(given.ref, SequenceLog{given.work, {}});
  }
  take(self, given);
}

} // namespace

caf::behavior rank_actor(caf::stateful_actor<RankState>* self, RankConfig config) {
  RankState& state = self->state;
  state.name = config.options.name;
  state.ref = {sched::StageKind::rank, config.options.rank};
  state.context = std::move(config.context);
  state.engine = std::move(config.engine);
  state.transport = std::move(config.transport);
  state.modelled_time = config.modelled_time;
  state.rank = config.options.rank;
  state.pulse = config.pulse;
  state.totals = config.totals;
  state.log = std::make_unique<TokenLog>(state.engine->model().eos_ids);
  state.runner = std::make_unique<StepRunner>(*state.engine);
  state.lane = open_lane(*self, config.lane_thread);
  state.begin_life(*self, config.options, config.policies);
  state.stage =
      std::make_unique<sched::RankStage>(config.options, config.policies, *config.registry);
  state.other = [self](sched::Effect& effect) { perform_other(*self, effect); };
  drop_unexpected(*self, state.context.counters);
  return {
      [=](const Start&) { work(*self, [&] { self->state.start(*self); }); },
      [=](const sched::Assign& m) { assign(*self, m); },
      [=](const sched::RunChunks& m) { take(*self, m); },
      [=](const sched::Reserve& m) { take(*self, m); },
      [=](const sched::Renew& m) { take(*self, m); },
      [=](const sched::Pull& m) { take(*self, m); },
      [=](const sched::Adopt& m) { take(*self, m); },
      [=](const sched::Release& m) { take(*self, m); },
      [=](const LaneDone& m) { work(*self, [&] { self->state.lane->finish(m.ticket); }); },
      [=](const sched::Exported& m) { take(*self, m); },
      [=](const sched::Imported& m) { take(*self, m); },
      [=](const sched::ExpertPlan& m) { take(*self, m); },
      [=](const sched::SwapPrepare& m) { take(*self, m); },
      [=](const sched::SwapCommit& m) { take(*self, m); },
      [=](const sched::SwapAbort& m) { take(*self, m); },
      [=](const WakeUp& up) {
        self->state.wake(*self, up, [&](const sched::Timer& timer) { take(*self, timer); });
      },
      [=](const PollTransport&) { work(*self, [&] { poll_transport(*self); }); },
      [=](const Stop&) {
        self->state.stopping = true;
        leave(*self);
      },
  };
}

} // namespace troupe::actors
