#include "tests/support/pipeline_harness.hpp"

#include <algorithm>
#include <sstream>

namespace troupe::sched::testing {
namespace {

/// Messages whose loss the protocol repairs by itself. Reports are not among them: a lost one means
/// a lost connection, which is a RankDown.
bool may_be_lost(const Message& message) {
  return std::visit(
      [](const auto& m) {
        using M = std::decay_t<decltype(m)>;
        return std::is_same_v<M, Assign> || std::is_same_v<M, Assigned> ||
               std::is_same_v<M, RunChunks> || std::is_same_v<M, PrefillDone> ||
               std::is_same_v<M, Reserve> || std::is_same_v<M, Reserved> ||
               std::is_same_v<M, Renew> || std::is_same_v<M, Pull> ||
               std::is_same_v<M, TransferDone> || std::is_same_v<M, Adopt> ||
               std::is_same_v<M, Adopted> || std::is_same_v<M, Tokens>;
      },
      message);
}

std::uint64_t fingerprint(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  std::uint64_t h = a.size();
  for (const std::int32_t t : a)
    h = mix64(h ^ static_cast<std::uint64_t>(t));
  for (const std::int32_t t : b)
    h = mix64(h ^ static_cast<std::uint64_t>(t) ^ 1);
  return h;
}

} // namespace

std::int32_t Pipeline::token_of(RequestId request, std::int64_t index) {
  return static_cast<std::int32_t>(
      draw(raw(request), static_cast<std::uint64_t>(index), Purpose::null_token) % 1'000'000);
}

Pipeline::Pipeline(const PipelineOptions& options)
    : options_(options), rng_(draw(options.seed, 7, Purpose::seed)) {
  register_builtin_policies(registry_);
  const auto status = registry_.check(options_.policies);
  TROUPE_CHECK(status.ok(), "the policies of a test exist");
  options_.driver.cost_model = options_.prefill.cost_model = options_.decode.cost_model =
      options_.cost_model;
  options_.driver.seed = options_.prefill.seed = options_.decode.seed = options_.seed;
  driver_ = std::make_unique<DriverStage>(options_.driver, options_.policies, registry_);
  prefill_ = std::make_unique<PrefillStage>(options_.prefill, options_.policies, registry_);
  decode_ = std::make_unique<DecodeStage>(options_.decode, options_.policies, registry_);
  for (std::size_t i = 0; i < options_.ranks.size(); ++i) {
    const RankId id{static_cast<std::uint32_t>(i)};
    FakeRank& rank = ranks_[id];
    rank.spec = options_.ranks[i];
    rank.ref = {id, Incarnation{0}};
  }
}

Pipeline::~Pipeline() = default;

const RankStage& Pipeline::rank(RankId id) const { return *ranks_.at(id).stage; }

void Pipeline::start() {
  for (auto& [id, rank] : ranks_)
    start_rank(rank);
}

void Pipeline::start_rank(FakeRank& rank) {
  rank.ref.incarnation = next(rank.ref.incarnation);
  rank.sequences.clear();
  rank.exported.clear();
  rank.hangs = false;
  RankOptions options;
  options.rank = rank.ref;
  options.role = rank.spec.role;
  options.name = std::string(role_name(rank.spec.role)) + "-" + std::to_string(raw(rank.ref.rank));
  options.kv_blocks = rank.spec.kv_blocks;
  options.block_tokens = options_.block_tokens;
  options.slots = rank.spec.slots;
  options.step_tokens_max = rank.spec.step_tokens_max;
  options.context_max = rank.spec.context_max;
  options.lease_us = options_.rank_lease_us;
  options.cost_model = options_.cost_model;
  options.seed = options_.seed;
  rank.stage = std::make_unique<RankStage>(options, options_.policies, registry_);
  Effects effects;
  rank.stage->start(now_us_, effects);
  perform(effects, {Peer::rank, rank.ref.rank}, rank.ref.incarnation);
}

void Pipeline::post(std::int64_t due_us, Item item) {
  queue_.emplace(std::make_pair(due_us, ++order_), std::move(item));
}

void Pipeline::arrive_at(std::int64_t due_us, RequestId request, std::int64_t prompt,
                         std::int64_t new_tokens_max) {
  Arrive arrive;
  arrive.request = request;
  for (std::int64_t i = 0; i < prompt; ++i) {
    arrive.work.prompt.push_back(static_cast<std::int32_t>(i));
  }
  arrive.work.new_tokens_max = new_tokens_max;
  arrived_.insert(request);
  post(due_us, {{Peer::driver, RankId{}}, {}, std::move(arrive), {}});
}

void Pipeline::abandon_at(std::int64_t due_us, RequestId request) {
  post(due_us, {{Peer::driver, RankId{}}, {}, Abandon{request, ErrorCode::cancelled}, {}});
}

void Pipeline::stop_at(std::int64_t due_us, RequestId request) {
  post(due_us, {{Peer::driver, RankId{}}, {}, StopSeen{request}, {}});
}

void Pipeline::kill_at(std::int64_t due_us, RankId rank, std::int64_t down_us) {
  post(due_us, {{}, {}, {}, [this, rank, down_us] { kill(rank, down_us); }});
}

void Pipeline::hang_at(std::int64_t due_us, RankId rank) {
  post(due_us, {{}, {}, {}, [this, rank] { ranks_.at(rank).hangs = true; }});
}

void Pipeline::kill(RankId id, std::int64_t down_us) {
  FakeRank& rank = ranks_.at(id);
  if (rank.stage == nullptr) return;
  rank.stage.reset();
  rank.sequences.clear();
  rank.exported.clear();
  for (const Peer to : {Peer::driver, Peer::chunker, Peer::balancer}) {
    const std::int64_t delay_us =
        options_.delay_us_min + static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(
                                    options_.delay_us_max - options_.delay_us_min + 1)));
    const RankDown down{rank.ref, ErrorCode::rank_lost, down_us >= 0};
    post(now_us_ + delay_us, {{to, RankId{}}, {}, down, {}});
  }
  if (down_us >= 0) {
    post(now_us_ + down_us, {{}, {}, {}, [this, id] { start_rank(ranks_.at(id)); }});
  }
}

void Pipeline::send(const Send& effect, Address from) {
  ++messages_;
  const Address to{effect.to, effect.to == Peer::rank ? effect.rank : RankId{}};
  Event event = std::visit([](const auto& m) { return Event(m); }, effect.message);
  const auto wanted = lose_.find(event.index());
  if (wanted != lose_.end() && wanted->second > 0) {
    --wanted->second;
    return;
  }
  if (may_be_lost(effect.message) && chance(options_.loss_permille)) return;
  const std::int64_t delay_us =
      options_.delay_us_min + static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(
                                  options_.delay_us_max - options_.delay_us_min + 1)));
  std::int64_t& last_us = last_due_us_[{from, to}];
  last_us = std::max(last_us, now_us_ + delay_us);
  Incarnation incarnation{};
  if (effect.to == Peer::rank) incarnation = ranks_.at(effect.rank).ref.incarnation;
  post(last_us, {to, incarnation, std::move(event), {}});
}

void Pipeline::perform(Effects& effects, Address from, Incarnation incarnation) {
  for (const Effect& effect : effects.list()) {
    if (const auto* message = std::get_if<Send>(&effect)) {
      send(*message, from);
    } else if (const auto* timer = std::get_if<SetTimer>(&effect)) {
      post(std::max(now_us_, timer->due_us),
           {from, incarnation, Timer{timer->kind, timer->key}, {}});
    } else if (const auto* record = std::get_if<Record>(&effect)) {
      if (record->reason == Reason::unset) fail("a decision without reason: " + record->kind);
      if (raw(record->epoch) == 0) fail("a decision without policy epoch: " + record->kind);
      hash(static_cast<std::uint64_t>(record->reason) ^ raw(record->rank.rank) << 8U);
      records_.push_back(*record);
    } else if (const auto* emitted = std::get_if<Emit>(&effect)) {
      emit(*emitted);
    } else if (const auto* finish = std::get_if<Finish>(&effect)) {
      Outcome& outcome = outcomes_[finish->request];
      outcome.endings.push_back(*finish);
      if (outcome.endings.size() > 1) fail("a request ended twice");
      if (outcome.endings.size() == 1 && arrived_.count(finish->request) != 0) ++ended_;
      if (finish->end_us < finish->arrival_us) fail("a request ended before it arrived");
    } else if (const auto* stuck = std::get_if<Stuck>(&effect)) {
      outcomes_[stuck->request].stuck.push_back(*stuck);
    } else {
      perform_other(effect, ranks_.at(from.second));
    }
  }
  effects.clear();
}

void Pipeline::emit(const Emit& effect) {
  Outcome& outcome = outcomes_[effect.request];
  if (!outcome.endings.empty()) fail("a token after the ending");
  for (const TokenRow& row : effect.rows) {
    if (row.index != static_cast<std::int64_t>(outcome.tokens.size())) {
      fail("request " + std::to_string(raw(effect.request)) + ": token " +
           std::to_string(row.index) + " where " + std::to_string(outcome.tokens.size()) +
           " was next");
    }
    if (row.token != token_of(effect.request, row.index)) fail("a wrong token");
    outcome.tokens.push_back(row.token);
    hash(static_cast<std::uint64_t>(row.token));
  }
}

void Pipeline::perform_other(const Effect& effect, FakeRank& rank) {
  const Address self{Peer::rank, rank.ref.rank};
  if (const auto* step = std::get_if<RunStep>(&effect)) {
    run_step(*step, rank);
  } else if (const auto* wanted = std::get_if<ExportSequence>(&effect)) {
    Exported done{wanted->ref, ErrorCode::ok, {}};
    if (chance(options_.export_failure_permille)) {
      done.code = ErrorCode::engine_failed;
    } else {
      done.manifest =
          std::to_string(raw(rank.ref.rank)) + "/" + std::to_string(raw(wanted->ref.request));
      rank.exported[wanted->ref] = rank.sequences.at(wanted->ref);
    }
    post(now_us_ + 1, {self, rank.ref.incarnation, std::move(done), {}});
  } else if (const auto* pull = std::get_if<ImportSequence>(&effect)) {
    import(*pull, rank);
  } else if (const auto* forget = std::get_if<Forget>(&effect)) {
    rank.sequences.erase(forget->ref);
    rank.exported.erase(forget->ref);
  } else {
    fail("an effect that a rank cannot perform");
  }
}

void Pipeline::run_step(const RunStep& step, FakeRank& rank) {
  if (rank.hangs) return;
  const Address self{Peer::rank, rank.ref.rank};
  StepDone done;
  done.step = step.step;
  std::int64_t tokens = 0;
  std::int64_t cost_ps = options_.cost_model.step_ps;
  std::set<StateSlotId> slots;
  for (const StepEntry& entry : step.entries) {
    tokens += entry.count;
    cost_ps += options_.cost_model.marginal_ps(entry.count, entry.first_position);
    if (!slots.insert(entry.slot).second) fail("two sequences of a step share a slot");
  }
  if (step.entries.empty() || tokens > rank.spec.step_tokens_max) {
    fail("a step of " + std::to_string(tokens) + " tokens");
  }
  done.compute_us = std::max<std::int64_t>(1, cost_ps / 1'000'000);
  if (chance(options_.step_failure_permille)) {
    done.code = ErrorCode::engine_failed;
  } else {
    for (const StepEntry& entry : step.entries)
      done.rows.push_back(run_entry(entry, rank));
  }
  post(now_us_ + done.compute_us, {self, rank.ref.incarnation, std::move(done), {}});
}

StepRow Pipeline::run_entry(const StepEntry& entry, FakeRank& rank) {
  StepRow row;
  row.ref = entry.ref;
  FakeSequence& sequence = rank.sequences[entry.ref];
  const auto blocks = static_cast<std::int64_t>(entry.blocks.size());
  const std::int64_t end = entry.first_position + entry.count;
  const std::int64_t tokens =
      sequence.work.prefill_tokens() + static_cast<std::int64_t>(sequence.drawn.size());
  if (entry.count < 1 || entry.first_position != sequence.positions || end > tokens) {
    fail("a step entry that does not continue its sequence");
  }
  if (blocks * options_.block_tokens < end) fail("a block table that is too short");
  if (entry.draw != (end == tokens)) fail("a token is drawn at the wrong place");
  for (const auto& [ref, other] : rank.sequences) {
    if (ref == entry.ref || other.blocks.empty()) continue;
    if (other.slot == entry.slot) fail("two sequences own one slot");
    for (const KvBlockId block : entry.blocks) {
      if (std::count(other.blocks.begin(), other.blocks.end(), block) != 0) {
        fail("two sequences own one block");
      }
    }
  }
  sequence.slot = entry.slot;
  sequence.blocks = entry.blocks;
  if (chance(options_.row_failure_permille)) {
    row.status = chance(500) ? ErrorCode::rank_lost : ErrorCode::engine_failed;
    return row;
  }
  sequence.positions = end;
  row.length = end;
  if (!entry.draw) return row;
  const auto index =
      static_cast<std::int64_t>(sequence.work.answered.size() + sequence.drawn.size());
  row.drew = true;
  row.token.token = token_of(entry.ref.request, index) + (chance(options_.canary_permille) ? 1 : 0);
  const auto eos = eos_.find(entry.ref.request);
  if (eos != eos_.end() && index + 1 >= eos->second) row.token.end = EndReason::eos;
  sequence.drawn.push_back(row.token.token);
  return row;
}

void Pipeline::import(const ImportSequence& wanted, FakeRank& rank) {
  const Address self{Peer::rank, rank.ref.rank};
  if (rank.hangs) return;
  Imported done;
  done.ref = wanted.pull.ref;
  done.handoff = wanted.pull.handoff;
  const FakeRank& source = ranks_.at(wanted.pull.source.rank);
  const auto found = source.exported.find(wanted.pull.ref);
  if (source.stage == nullptr || source.ref != wanted.pull.source ||
      found == source.exported.end() || chance(options_.import_failure_permille)) {
    done.code = ErrorCode::transfer_failed;
    done.detail = "the source does not answer";
  } else {
    const FakeSequence& from = found->second;
    const auto blocks = static_cast<std::int64_t>(wanted.blocks.size());
    if (blocks * options_.block_tokens < from.positions ||
        (blocks - 1) * options_.block_tokens >= from.positions) {
      fail("an import into another number of blocks than arrive");
    }
    FakeSequence& sequence = rank.sequences[wanted.pull.ref];
    sequence = from;
    sequence.slot = wanted.slot;
    sequence.blocks = wanted.blocks;
    done.digest.low = fingerprint(from.work.prompt, from.drawn);
    if (chance(options_.damage_permille)) {
      done.code = ErrorCode::bad_digest;
      done.detail = "the bytes arrived damaged";
    }
    done.positions = from.positions;
    done.answered = static_cast<std::int64_t>(from.work.answered.size() + from.drawn.size());
    done.new_tokens_max = from.work.new_tokens_max;
  }
  const std::int64_t copy_us = 1 + static_cast<std::int64_t>(rng_.below(50));
  post(now_us_ + copy_us, {self, rank.ref.incarnation, std::move(done), {}});
}

void Pipeline::deliver_to_rank(const Item& item, FakeRank& rank, Effects& effects) {
  if (rank.stage == nullptr || rank.ref.incarnation != item.incarnation) return; // An old life.
  if (const auto* assign = std::get_if<Assign>(&item.event)) {
    rank.sequences[assign->ref].work = assign->work; // As the shell keeps its token log.
  }
  if (!deliver(*rank.stage, item.event, now_us_, effects)) fail("a rank got foreign mail");
}

void Pipeline::handle(const Item& item) {
  if (item.action) {
    item.action();
    return;
  }
  Effects effects;
  bool taken = true;
  switch (item.to.first) {
  case Peer::driver:
    taken = deliver(*driver_, item.event, now_us_, effects);
    break;
  case Peer::chunker:
    taken = deliver(*prefill_, item.event, now_us_, effects);
    break;
  case Peer::balancer:
    taken = deliver(*decode_, item.event, now_us_, effects);
    break;
  case Peer::rank:
    deliver_to_rank(item, ranks_.at(item.to.second), effects);
    break;
  }
  if (!taken) fail("a stage got foreign mail");
  perform(effects, item.to, item.incarnation);
}

bool Pipeline::step() {
  if (queue_.empty()) return false;
  const auto first = queue_.begin();
  if (first->first.first < now_us_) fail("the clock ran backwards");
  now_us_ = first->first.first;
  const Item item = std::move(first->second);
  queue_.erase(first);
  ++events_;
  hash(static_cast<std::uint64_t>(now_us_) ^ (item.event.index() << 48U) ^
       (static_cast<std::uint64_t>(item.to.first) << 56U));
  handle(item);
  if (events_ % options_.check_every == 0) check();
  if (after_event) after_event(*this);
  return true;
}

void Pipeline::check() {
  for (const auto& [id, rank] : ranks_) {
    if (rank.stage == nullptr) continue;
    const Status status = rank.stage->check();
    if (!status.ok()) fail("rank " + std::to_string(raw(id)) + ": " + status.error().message);
    const RankCounts& counts = rank.stage->counts();
    if (counts.kv_blocks_free + counts.kv_blocks_reserved != rank.spec.kv_blocks ||
        counts.slots_free + counts.slots_reserved != rank.spec.slots) {
      fail("rank " + std::to_string(raw(id)) + ": free + reserved is not total");
    }
  }
  const DriverCounts& counts = driver_->counts();
  if (counts.accepted != counts.live + counts.finished + counts.failed + counts.cancelled) {
    fail("requests are not conserved");
  }
  if (counts.live > options_.driver.requests_max) fail("more requests than requests_max");
  if (prefill_->counts().waiting > options_.prefill.queue_max) fail("more waiting than queue_max");
  if (decode_->counts().waiting > options_.decode.waiting_max) fail("more than waiting_max");
  const DecodeCounts& decode = decode_->counts();
  if (decode.waiting < 0 || decode.handing_off < 0 || decode.decoding < 0) fail("negative count");
}

bool Pipeline::all_ended() const { return ended_ == arrived_.size(); }

bool Pipeline::run(std::int64_t limit_us, std::int64_t settle_us) {
  std::int64_t until_us = limit_us;
  bool ended = false;
  while (problem_.empty() && !queue_.empty() && queue_.begin()->first.first <= until_us) {
    step();
    if (!ended && all_ended()) {
      ended = true;
      until_us = now_us_ + settle_us;
    }
  }
  return ended && problem_.empty();
}

std::string Pipeline::leftovers() const {
  std::ostringstream out;
  for (const auto& [id, rank] : ranks_) {
    if (rank.stage == nullptr) continue;
    if (rank.stage->sequences() != 0) {
      out << "rank " << raw(id) << " holds " << rank.stage->sequences() << " sequences; ";
    }
    if (!rank.sequences.empty() || !rank.exported.empty()) {
      out << "rank " << raw(id) << " keeps token logs of " << rank.sequences.size() << " and "
          << rank.exported.size() << " exports; ";
    }
  }
  if (driver_->counts().live != 0) out << "driver has " << driver_->counts().live << " live; ";
  if (prefill_->counts().waiting != 0) out << "chunker queue is not empty; ";
  if (prefill_->requests() != 0) out << "chunker knows " << prefill_->requests() << "; ";
  const DecodeCounts& decode = decode_->counts();
  if (decode.waiting + decode.handing_off + decode.decoding != 0) {
    out << "balancer: " << decode.waiting << " wait, " << decode.handing_off << " move, "
        << decode.decoding << " decode; ";
  }
  return out.str();
}

void Pipeline::fail(const std::string& what) {
  if (problem_.empty()) {
    problem_ = "seed " + std::to_string(options_.seed) + ", " + std::to_string(now_us_) +
               " us, event " + std::to_string(events_) + ": " + what;
  }
}

} // namespace troupe::sched::testing
