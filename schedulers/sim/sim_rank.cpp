#include "schedulers/sim/sim_rank.hpp"

#include "schedulers/core/check.hpp"
#include "schedulers/model/queue_estimate.hpp"
#include "schedulers/model/rank_view.hpp"

#include <algorithm>
#include <utility>

namespace troupe::sim {

namespace {

constexpr std::int64_t kPicosPerMicro = 1'000'000;

std::uint64_t digest_of(const sched::Work& work) {
  std::uint64_t digest = work.sampling.seed;
  for (const std::int32_t token : work.prompt)
    digest = mix64(digest ^ static_cast<std::uint64_t>(token));
  for (const std::int32_t token : work.answered)
    digest = mix64(digest ^ static_cast<std::uint64_t>(token) ^ 1);
  return digest;
}

} // namespace

std::int32_t token_of(const TokenRule& rule, std::uint64_t seed, std::int64_t index) {
  const std::uint64_t bits = draw(seed, static_cast<std::uint64_t>(index), Purpose::null_token);
  auto token = static_cast<std::int32_t>(
      static_cast<Wide>(bits) * static_cast<std::uint64_t>(rule.vocab) >> 64);
  while (std::binary_search(rule.never.begin(), rule.never.end(), token))
    token = static_cast<std::int32_t>((token + 1) % rule.vocab);
  return token;
}

SimRank::SimRank(const sched::RankOptions& options, const sched::PolicySet& set,
                 const sched::PolicyRegistry& registry, EngineWorld& world)
    : options_(options), world_(world),
      stage_(std::make_unique<sched::RankStage>(options, set, registry)),
      slot_owner_(static_cast<std::size_t>(options.slots)) {}

void SimRank::fail(const char* what) {
  if (world_.problem.empty()) world_.problem = options_.name + ": " + what;
}

SimRank::Log* SimRank::find(const RequestRef& ref) {
  const auto found = at(sequences_, ref);
  return found != sequences_.end() && found->ref == ref ? &*found : nullptr;
}

bool SimRank::knows(const RequestRef& ref) const {
  const auto found = at(sequences_, ref);
  return found != sequences_.end() && found->ref == ref;
}

void SimRank::remember(const sched::Assign& event) {
  const sched::Work& work = event.work;
  if (find(event.ref) != nullptr) return; // An Assign that was repeated.
  Log log;
  log.ref = event.ref;
  log.seed = work.sampling.seed;
  log.digest = digest_of(work);
  log.tokens = work.prefill_tokens();
  log.answered = static_cast<std::int64_t>(work.answered.size());
  log.new_tokens_max = work.new_tokens_max;
  const auto length =
      std::lower_bound(world_.lengths.begin(), world_.lengths.end(), event.ref.request,
                       [](const auto& entry, RequestId request) { return entry.first < request; });
  if (length != world_.lengths.end() && length->first == event.ref.request) {
    log.answer_tokens = length->second;
  }
  sequences_.insert(at(sequences_, event.ref), std::move(log));
}

void SimRank::returned(const sched::StepDone& done) {
  if (in_flight_.empty() || in_flight_.front().step != done.step) {
    fail("steps that end in another order than they were given");
    return;
  }
  in_flight_.pop_front();
}

void SimRank::forget(const RequestRef& ref) {
  for (const sched::RunStep& step : in_flight_) {
    for (const sched::StepEntry& entry : step.entries) {
      if (entry.ref == ref) fail("a sequence is freed while a step works on it");
    }
  }
  if (Log* log = find(ref)) {
    for (const KvBlockId block : log->blocks)
      block_owner_[static_cast<std::size_t>(raw(block))] = {};
    RequestRef& owner = slot_owner_[static_cast<std::size_t>(raw(log->slot))];
    if (owner == ref) owner = {};
    sequences_.erase(at(sequences_, ref));
  }
  const auto sent = at(exported_, ref);
  if (sent != exported_.end() && sent->ref == ref) exported_.erase(sent);
}

/// Takes note of slot and blocks of a sequence; none may be another's.
void SimRank::claim(Log& log, StateSlotId slot, std::span<const KvBlockId> blocks) {
  RequestRef& owner = slot_owner_[static_cast<std::size_t>(raw(slot))];
  if (owner != log.ref && owner != RequestRef{}) fail("two sequences own one slot");
  owner = log.ref;
  log.slot = slot;
  const std::size_t known = log.blocks.size();
  if (blocks.size() == known && (known == 0 || blocks.back() == log.blocks.back())) return;
  if (blocks.size() < known || !std::equal(log.blocks.begin(), log.blocks.end(), blocks.begin())) {
    fail("a block table that changed under a sequence");
    return;
  }
  for (std::size_t i = known; i < blocks.size(); ++i) {
    const auto id = static_cast<std::size_t>(raw(blocks[i]));
    if (id >= static_cast<std::size_t>(options_.kv_blocks)) return fail("a block it does not have");
    if (id >= block_owner_.size()) block_owner_.resize(id + 1);
    RequestRef& block = block_owner_[id];
    if (block != log.ref && block != RequestRef{}) fail("two sequences own one block");
    block = log.ref;
    log.blocks.push_back(blocks[i]);
  }
}

/// As the null engine: one new token with a past is a decode, everything else a chunk.
std::int64_t SimRank::cost_ps(const sched::StepEntry& entry) const {
  const sched::CostModel& cost = options_.cost_model;
  if (entry.count == 1 && entry.first_position > 0 && entry.draw) {
    return cost.decode_load_ps(1, entry.first_position);
  }
  return cost.marginal_ps(entry.count, entry.first_position);
}

EngineAnswer SimRank::run(const sched::RunStep& step, std::int64_t now_us) {
  in_flight_.push_back(step);
  if (in_flight_.size() > 2) fail("more than two steps in flight");
  if (stuck_) return {};
  sched::StepDone done;
  done.step = step.step;
  std::int64_t tokens = 0;
  std::int64_t cost = options_.cost_model.step_ps;
  for (const sched::StepEntry& entry : step.entries) {
    tokens += entry.count;
    cost = sched::add_saturated(cost, cost_ps(entry));
  }
  if (step.entries.empty() || tokens > options_.step_tokens_max) {
    fail("a step without work, or beyond step_tokens_max");
  }
  const std::int64_t micros = cost / kPicosPerMicro;
  done.compute_us = std::max<std::int64_t>(1, micros * slow_permille_ / 1000);
  if (chance(world_.options.step_failure_permille)) {
    done.code = ErrorCode::engine_failed;
    for (const sched::StepEntry& entry : step.entries) {
      if (Log* log = find(entry.ref)) log->failed = true;
    }
  } else {
    done.rows.reserve(step.entries.size());
    for (const sched::StepEntry& entry : step.entries)
      done.rows.push_back(run_entry(entry, step.blocks_of(entry)));
  }
  host_free_us_ = std::max(host_free_us_, now_us) + world_.options.host_us;
  device_free_us_ = std::max(device_free_us_, host_free_us_) + done.compute_us;
  return {true, device_free_us_ - now_us, std::move(done)};
}

sched::StepRow SimRank::run_entry(const sched::StepEntry& entry, std::span<const KvBlockId> table) {
  sched::StepRow row;
  row.ref = entry.ref;
  Log* log = find(entry.ref);
  const auto blocks = static_cast<std::int64_t>(table.size());
  const std::int64_t end = entry.first_position + entry.count;
  if (log == nullptr) {
    fail("a step of a sequence without token log");
    row.status = ErrorCode::bad_plan;
    return row;
  }
  if (entry.follows && entry.first_position != log->positions && log->failed) {
    row.status = ErrorCode::engine_failed; // The step before failed on it: nothing to go on from.
    return row;
  }
  if (entry.count < 1 || entry.first_position != log->positions || end > log->tokens) {
    fail("a step entry that does not continue its sequence");
  }
  if (blocks * options_.block_tokens < end) fail("a block table that is too short");
  if (entry.draw != (end == log->tokens)) fail("a token is drawn at the wrong place");
  claim(*log, entry.slot, table);
  if (chance(world_.options.row_failure_permille)) {
    row.status = chance(500) ? ErrorCode::rank_lost : ErrorCode::engine_failed;
    log->failed = true;
    return row;
  }
  log->positions = end;
  row.length = end;
  if (entry.draw) draw_token(*log, row);
  return row;
}

void SimRank::draw_token(Log& log, sched::StepRow& row) {
  row.drew = true;
  row.token.index = log.answered;
  row.token.token = token_of(world_.options.tokens, log.seed, log.answered);
  if (chance(world_.options.lie_permille)) ++row.token.token;
  ++log.answered;
  ++log.tokens;
  log.digest = mix64(log.digest ^ static_cast<std::uint64_t>(row.token.token));
  if (log.answer_tokens > 0 && log.answered >= log.answer_tokens) {
    row.token.end = sched::EndReason::eos;
  } else if (log.answered >= log.new_tokens_max) {
    row.token.end = sched::EndReason::length;
  }
}

EngineAnswer SimRank::send_out(const sched::ExportSequence& wanted) {
  if (stuck_) return {};
  sched::Exported done{wanted.ref, ErrorCode::ok, {}};
  const Log* log = find(wanted.ref);
  if (log == nullptr) fail("an export of a sequence without token log");
  if (log == nullptr || chance(world_.options.export_failure_permille)) {
    done.code = ErrorCode::engine_failed;
  } else {
    done.manifest = options_.name;
    exported_.insert(at(exported_, wanted.ref), *log);
  }
  return {true, world_.options.export_us, std::move(done)};
}

EngineAnswer SimRank::bring_in(const sched::ImportSequence& wanted, const SimRank* source) {
  if (stuck_) return {};
  const EngineOptions& engine = world_.options;
  sched::Imported done;
  done.ref = wanted.pull.ref;
  done.handoff = wanted.pull.handoff;
  const Log* found = nullptr;
  if (source != nullptr) {
    const auto sent = at(source->exported_, wanted.pull.ref);
    if (sent != source->exported_.end() && sent->ref == wanted.pull.ref) found = &*sent;
  }
  std::int64_t copy_us = engine.copy_us_min;
  if (engine.copy_us_max > engine.copy_us_min) {
    copy_us += static_cast<std::int64_t>(
        world_.rng.below(static_cast<std::uint64_t>(engine.copy_us_max - engine.copy_us_min + 1)));
  }
  if (found == nullptr || chance(engine.import_failure_permille)) {
    done.code = ErrorCode::transfer_failed;
    done.detail = "the source does not answer";
    return {true, copy_us, std::move(done)};
  }
  copy_us += found->positions * engine.copy_us_per_kilotoken / 1000;
  const auto blocks = static_cast<std::int64_t>(wanted.blocks.size());
  if (blocks != sched::blocks_for(found->positions, options_.block_tokens)) {
    fail("an import into another number of blocks than arrive");
  }
  forget(wanted.pull.ref); // An earlier import of the same attempt that nobody adopted.
  Log log = *found;
  log.blocks.clear();
  done.digest.low = log.digest;
  done.positions = log.positions;
  done.answered = log.answered;
  done.new_tokens_max = log.new_tokens_max;
  if (chance(engine.damage_permille)) {
    done.code = ErrorCode::bad_digest;
    done.detail = "the bytes arrived damaged";
  }
  claim(log, wanted.slot, wanted.blocks);
  sequences_.insert(at(sequences_, wanted.pull.ref), std::move(log));
  return {true, copy_us, std::move(done)};
}

} // namespace troupe::sim
