#include "actors/rank_actor.hpp"

#include "schedulers/registry/policy_registry.hpp"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

namespace troupe::actors {

namespace {

using Self = caf::stateful_actor<RankState>;

constexpr std::chrono::milliseconds kPollEvery{1};

void run_step(Self& self, const sched::RunStep& step) {
  RankState& state = self.state;
  build_plan(step, *state.log, state.plan);
  Result<engine::StepResult> result = state.engine->step(state.plan);
  if (state.pulse->fenced()) return;
  sched::StepDone done;
  if (result.ok()) {
    done = take_result(step, *result, *state.log);
  } else {
    spdlog::error("{}: step {} failed: {}", state.name, step.step, result.error().message);
    done.step = step.step;
    done.code = result.error().code;
  }
  if (state.modelled_time && done.compute_us > 0) {
    const std::chrono::microseconds takes{done.compute_us};
    self.delayed_send(&self, takes, std::move(done));
  } else {
    self.send(&self, std::move(done));
  }
}

/// Registers slot, blocks and token log, and describes them.
Result<std::string> export_sequence(RankState& state, const sched::ExportSequence& wanted) {
  const SequenceLog* log = state.log->find(wanted.ref);
  TROUPE_CHECK(log != nullptr, "an export of a sequence without token log");
  auto exported = state.engine->export_kv(wanted.slot, wanted.blocks);
  if (!exported.ok()) return exported.error();
  RegisteredSequence& registered = state.registered[wanted.ref];
  registered.log = encode(*log);
  HandoffRecord record;
  record.address = state.transport->address();
  record.manifest = exported->manifest;
  const auto add = [&](std::span<const std::byte> bytes) -> Result<std::uint64_t> {
    auto region = state.transport->register_region(bytes);
    if (!region.ok()) return region.error();
    registered.regions.push_back(*region);
    return raw(*region);
  };
  for (const auto& region : exported->regions) {
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

void forget(RankState& state, RequestRef ref) {
  state.log->forget(ref);
  const auto found = state.registered.find(ref);
  if (found == state.registered.end()) return;
  for (const auto region : found->second.regions)
    state.transport->deregister_region(region);
  state.registered.erase(found);
}

/// Starts reading a sequence; the error says why it could not start.
Status start_pull(RankState& state, const sched::ImportSequence& wanted) {
  auto record = decode_handoff(wanted.pull.manifest);
  if (!record.ok()) return record.status();
  auto regions = state.engine->import_regions(wanted.slot, wanted.blocks);
  if (!regions.ok()) return regions.status();
  if (regions->size() != record->region_ids.size()) {
    return {ErrorCode::mismatch,
            "the source hands over " + std::to_string(record->region_ids.size()) +
                " regions, the target holds " + std::to_string(regions->size())};
  }
  PendingPull pull{wanted, std::move(*record), {}};
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

/// What arrived, checked: digests of all regions, then the token log.
sched::Imported finish_pull(RankState& state, const PendingPull& pull, const Status& status) {
  sched::Imported out;
  out.ref = pull.wanted.pull.ref;
  out.handoff = pull.wanted.pull.handoff;
  const auto fail = [&](const Error& error) {
    out.code = error.code;
    out.detail = error.message;
    return out;
  };
  if (!status.ok()) return fail(status.error());
  if (digest_of(std::span<const std::byte>(pull.log)) != pull.record.log.digest) {
    return fail({ErrorCode::bad_digest, "the token log arrived damaged"});
  }
  auto log = decode_sequence_log(pull.log);
  if (!log.ok()) return fail(log.error());
  const Status imported =
      state.engine->import_kv(pull.record.manifest, pull.wanted.slot, pull.wanted.blocks);
  if (!imported.ok()) return fail(imported.error());
  out.digest = digest_of(pull.record);
  out.positions = pull.record.manifest.positions;
  out.answered = log->answered();
  out.new_tokens_max = log->work.new_tokens_max;
  state.log->put(out.ref, std::move(*log));
  return out;
}

void poll_transport(Self& self) {
  RankState& state = self.state;
  for (const transport::Completion& completion : state.transport->poll()) {
    const auto found = state.pulls.find(completion.transfer);
    if (found == state.pulls.end()) continue;
    const PendingPull pull = std::move(found->second);
    state.pulls.erase(found);
    self.send(&self, finish_pull(state, pull, completion.status));
  }
  if (!state.pulls.empty()) self.delayed_send(&self, kPollEvery, PollTransport{});
}

void perform_other(Self& self, sched::Effect& effect) {
  RankState& state = self.state;
  if (auto* step = std::get_if<sched::RunStep>(&effect)) {
    run_step(self, *step);
  } else if (auto* wanted = std::get_if<sched::ExportSequence>(&effect)) {
    auto manifest = export_sequence(state, *wanted);
    if (!manifest.ok()) spdlog::error("{}: {}", state.name, manifest.error().message);
    self.send(&self, sched::Exported{wanted->ref, manifest.status().error().code,
                                     manifest.ok() ? std::move(*manifest) : std::string{}});
  } else if (auto* import = std::get_if<sched::ImportSequence>(&effect)) {
    const Status started = start_pull(state, *import);
    if (started.ok()) {
      poll_transport(self);
    } else {
      sched::Imported failed{import->pull.ref,
                             import->pull.handoff,
                             started.error().code,
                             {},
                             started.error().message};
      self.send(&self, std::move(failed));
    }
  } else if (auto* gone = std::get_if<sched::Forget>(&effect)) {
    forget(state, gone->ref);
  } else {
    TROUPE_CHECK(false, "an effect a rank cannot perform");
  }
}

/// Runs a call of this life and takes down what it left in the accounts. A life that was given up
/// meanwhile ends instead.
template <class Call>
void work(Self& self, Call call) {
  RankState& state = self.state;
  if (!state.pulse->fenced()) {
    const RankPulse::Work piece(*state.pulse);
    const sched::RankCounts before = state.stage->counts();
    call();
    const sched::RankCounts& after = state.stage->counts();
    if (!state.pulse->fenced()) {
      state.totals->steps += after.steps - before.steps;
      state.totals->busy_us += after.busy_us - before.busy_us;
      state.totals->preempted += after.preempted - before.preempted;
      state.totals->kv_blocks_held = after.kv_blocks_reserved;
      state.totals->kv_blocks_free = after.kv_blocks_free;
      state.totals->slots_held = after.slots_reserved;
      state.totals->slots_free = after.slots_free;
    }
  }
  if (state.pulse->fenced()) self.quit();
}

template <class Event>
void take(Self& self, const Event& event) {
  work(self, [&] { self.state.handle(self, event); });
}

void start(Self& self) {
  const std::int64_t now = now_us(self);
  RankState& state = self.state;
  state.run(self, now, [&](sched::Effects& effects) { state.stage->start(now, effects); });
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
  state.stage =
      std::make_unique<sched::RankStage>(config.options, config.policies, *config.registry);
  state.other = [self](sched::Effect& effect) { perform_other(*self, effect); };
  drop_unexpected(*self, state.context.counters);
  return {
      [=](const Start&) { work(*self, [&] { start(*self); }); },
      [=](const sched::Assign& m) { assign(*self, m); },
      [=](const sched::RunChunks& m) { take(*self, m); },
      [=](const sched::Reserve& m) { take(*self, m); },
      [=](const sched::Renew& m) { take(*self, m); },
      [=](const sched::Pull& m) { take(*self, m); },
      [=](const sched::Adopt& m) { take(*self, m); },
      [=](const sched::Release& m) { take(*self, m); },
      [=](const sched::StepDone& m) { take(*self, m); },
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
      [=](const Stop&) { self->quit(); },
  };
}

} // namespace troupe::actors
