#include "schedulers/sim/simulator.hpp"

#include "schedulers/core/check.hpp"
#include "schedulers/sim/faulty_policies.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace troupe::sim {

using namespace sched;

namespace {

constexpr Node kFirstRank = 3;

Bounds bounds_of(const SimOptions& options) {
  return {options.driver.requests_max, options.prefill.queue_max, options.decode.waiting_max,
          options.driver.attempts_max, options.policies.epoch,    options.engine.tokens,
          options.idle_us_max};
}

} // namespace

Simulator::Simulator(const SimOptions& options, const std::vector<RequestPlan>& requests)
    : options_(options), policies_(options.policies),
      network_(options.network, options.ranks.size()), outcomes_(requests),
      invariants_(bounds_of(options)), boxes_(kFirstRank + options.ranks.size()),
      canary_countdown_(options.canary_after) {
  register_builtin_policies(registry_);
  if (options_.more_policies) options_.more_policies(registry_);
  TROUPE_CHECK(registry_.check(policies_).ok(), "the policies of a run exist");
  if (options_.bad_decision_permille > 0) {
    policies_ = make_faulty(policies_, registry_, options_.bad_decision_permille, options_.seed);
  }
  if (options_.canary == Canary::wide_queue) options_.prefill.queue_max *= 2;
  world_.options = options_.engine;
  world_.rng = Rng(draw(options_.seed, 7, Purpose::seed));
  driver_ = std::make_unique<DriverStage>(options_.driver, policies_, registry_);
  prefill_ = std::make_unique<PrefillStage>(options_.prefill, policies_, registry_);
  decode_ = std::make_unique<DecodeStage>(options_.decode, policies_, registry_);
  immediate_ = options_.network.delay_us_max == 0;
  for (std::size_t i = 0; i < options_.ranks.size(); ++i) {
    TROUPE_CHECK(raw(options_.ranks[i].rank.rank) == i, "rank ids count from 0");
    Place& place = places_.emplace_back();
    place.options = options_.ranks[i];
    tally_.kv_blocks_total += place.options.kv_blocks;
    post(options_.start_us, {What::born, kFirstRank + i, {}, 0, Timer{}});
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const RequestPlan& plan = requests[i];
    arrivals_.push_back(i);
    if (plan.answer_tokens > 0) world_.lengths.emplace_back(plan.request, plan.answer_tokens);
    if (plan.abandon_at_us >= 0) {
      post(plan.abandon_at_us,
           {What::event, 0, {}, 0, Abandon{plan.request, ErrorCode::cancelled}});
    }
    if (plan.stop_at_us >= 0) {
      post(plan.stop_at_us, {What::event, 0, {}, 0, StopSeen{plan.request}});
    }
  }
  std::sort(arrivals_.begin(), arrivals_.end(), [&](std::size_t a, std::size_t b) {
    return std::make_pair(requests[a].at_us, a) > std::make_pair(requests[b].at_us, b);
  });
  post_next_arrival();
  for (std::size_t i = 0; i < options_.faults.size(); ++i) {
    const Fault& fault = options_.faults[i];
    post(fault.at_us, {What::fault_begins, kFirstRank + raw(fault.rank), {}, i, Timer{}});
  }
  for (std::size_t i = 0; i < options_.swaps.size(); ++i)
    post(options_.swaps[i].at_us, {What::swap, 0, {}, i, Timer{}});
  keep(0, nullptr, SetLive{policies_, SwapCause::start, {}});
}

Simulator::~Simulator() = default;

const SimRank* Simulator::rank(RankId id) const {
  const Place& place = places_.at(raw(id));
  return place.life == nullptr ? nullptr : &place.life->rank;
}

// -- mail ----------------------------------------------------------------------------------------

void Simulator::post(std::int64_t due_us, Mail mail) { queue_.push(due_us, std::move(mail)); }

void Simulator::put_in_box(Mail mail) {
  const Node to = mail.to;
  std::deque<Mail>& box = boxes_[to];
  box.push_back(std::move(mail));
  if (box.size() == 1 && to != busy_) turns_.push_back(to);
}

bool Simulator::take_next(Mail& mail) {
  if (!turns_.empty()) {
    const Node node = turns_.front();
    turns_.pop_front();
    mail = std::move(boxes_[node].front());
    boxes_[node].pop_front();
    busy_ = node;
    return true;
  }
  if (queue_.empty()) return false;
  const std::int64_t due_us = queue_.next_us();
  invariants_.ascending(now_us_, due_us);
  if (due_us != now_us_) tally_.pass(due_us);
  now_us_ = due_us;
  mail = queue_.pop();
  if (!immediate_) return true;
  // What is due now is mail like any other: it is handled in its receiver's turn.
  put_in_box(std::move(mail));
  return take_next(mail);
}

bool Simulator::step() {
  Mail mail;
  pending_ += static_cast<std::int64_t>(queue_.size());
  if (!take_next(mail)) return false;
  ++events_;
  hash(static_cast<std::uint64_t>(now_us_) ^ (mail.event.index() << 48U) ^
       (static_cast<std::uint64_t>(mail.to) << 56U));
  const Node node = mail.to;
  if (options_.tap && mail.what == What::event) options_.tap(node, mail.event, now_us_);
  handle(mail);
  if (immediate_) {
    busy_ = static_cast<Node>(-1);
    if (!boxes_[node].empty()) turns_.push_front(node);
  }
  look(node);
  return true;
}

void Simulator::handle(Mail& mail) {
  if (mail.what == What::arrives) {
    take_arrivals(mail.number);
  } else if (mail.what == What::swap) {
    swap(options_.swaps[mail.number]);
  } else if (mail.what != What::event) {
    control(mail);
  } else if (mail.to >= kFirstRank) {
    handle_rank(mail);
  } else {
    handle_stage(mail);
  }
}

void Simulator::handle_stage(Mail& mail) {
  bool taken = true;
  switch (static_cast<Peer>(mail.to)) {
  case Peer::driver:
    taken = deliver(*driver_, mail.event, now_us_, effects_);
    break;
  case Peer::chunker:
    taken = deliver(*prefill_, mail.event, now_us_, effects_);
    break;
  default:
    taken = deliver(*decode_, mail.event, now_us_, effects_);
  }
  if (!taken) invariants_.fail("a stage got foreign mail");
  perform(mail.to, nullptr);
}

/// One arrival is pending at a time: the queue stays short.
void Simulator::post_next_arrival() {
  if (arrivals_.empty()) return;
  const std::size_t number = arrivals_.back();
  arrivals_.pop_back();
  post(outcomes_.all()[number].plan.at_us, {What::arrives, 0, {}, number, Timer{}});
}

/// Without delays, arrivals of one instant are handled in one turn of the driver, like mail that
/// lies in an actor's box together.
void Simulator::take_arrivals(std::size_t number) {
  std::vector<std::size_t> numbers{number};
  while (immediate_ && !arrivals_.empty() &&
         outcomes_.all()[arrivals_.back()].plan.at_us == now_us_) {
    numbers.push_back(arrivals_.back());
    arrivals_.pop_back();
  }
  post_next_arrival();
  for (const std::size_t one : numbers)
    take_arrival(one);
}

void Simulator::take_arrival(std::size_t number) {
  Outcome& outcome = outcomes_.all()[number];
  const RequestPlan& plan = outcome.plan;
  outcome.arrived = true;
  ++arrived_;
  Arrive arrive;
  arrive.request = plan.request;
  arrive.tenant = plan.tenant;
  arrive.priority = plan.priority;
  arrive.session_hash = plan.session_hash;
  arrive.work.prompt.assign(static_cast<std::size_t>(plan.prompt), 1);
  arrive.work.new_tokens_max = plan.new_tokens_max;
  arrive.work.sampling.seed = plan.seed;
  keep(0, nullptr, RequestNamed{plan.request, "request-" + std::to_string(raw(plan.request))});
  driver_->on(arrive, now_us_, effects_);
  perform(node_of(Peer::driver, {}), nullptr);
}

StageRef Simulator::stage_of(Node from, const Life* life) const {
  if (from < kFirstRank) return {static_cast<StageKind>(from), {}};
  const RankId rank = options_.ranks[from - kFirstRank].rank.rank;
  return {StageKind::rank, {rank, life == nullptr ? Incarnation{} : life->incarnation}};
}

void Simulator::swap(const SimSwap& wanted) {
  PolicySet set = wanted.set;
  set.epoch = next(policies_.epoch);
  TROUPE_CHECK(registry_.check(set).ok(), "the policies of a swap exist");
  policies_ = set;
  invariants_.swapped(set.epoch);
  keep(0, nullptr, SetLive{set, SwapCause::command, wanted.reason});
  const auto tell = [&](Node node, Incarnation incarnation) {
    post(now_us_, {What::event, node, incarnation, 0, SwapPrepare{set}});
    post(now_us_, {What::event, node, incarnation, 0, SwapCommit{set.epoch}});
  };
  for (Node node = 0; node < kFirstRank; ++node)
    tell(node, {});
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].life != nullptr) tell(kFirstRank + i, places_[i].incarnation);
  }
}

Simulator::Life* Simulator::find_life(Node node, Incarnation incarnation) {
  Place& place = places_[node - kFirstRank];
  if (place.life != nullptr && place.life->incarnation == incarnation) return place.life.get();
  for (const auto& life : place.given_up) {
    if (life->incarnation == incarnation) return life.get();
  }
  return nullptr;
}

void Simulator::handle_rank(Mail& mail) {
  Life* life = find_life(mail.to, mail.incarnation);
  if (life == nullptr) return;
  if (life->paused) {
    life->held.push_back(std::move(mail));
    return;
  }
  if (life->full && refuse_full(mail, *life)) return;
  if (const auto* assign = std::get_if<Assign>(&mail.event)) life->rank.remember(*assign);
  if (const auto* done = std::get_if<StepDone>(&mail.event)) life->rank.returned(*done);
  if (!deliver(life->rank.stage(), mail.event, now_us_, effects_)) {
    invariants_.fail("a rank got foreign mail");
  }
  perform(mail.to, life);
}

// -- effects -------------------------------------------------------------------------------------

void Simulator::send(Send& effect, Node from) {
  if (effect.to == Peer::manager) return; // One set a run: nobody swaps.
  ++messages_;
  const Node to = node_of(effect.to, effect.rank);
  if (to >= boxes_.size()) {
    invariants_.fail("a message to a rank that does not exist");
    return;
  }
  const auto due_us = network_.arrival_us(from, to, effect.message, now_us_, world_.rng);
  if (!due_us) return;
  Mail mail;
  mail.to = to;
  if (to >= kFirstRank) mail.incarnation = places_[to - kFirstRank].incarnation;
  mail.event = std::visit([](auto& m) { return Event(std::move(m)); }, effect.message);
  if (immediate_ && *due_us <= now_us_) {
    put_in_box(std::move(mail));
  } else {
    post(*due_us, std::move(mail));
  }
}

void Simulator::answer(EngineAnswer answer, Node node, Incarnation incarnation) {
  if (!answer.comes) return;
  Mail mail{What::event, node, incarnation, 0, std::move(answer.event)};
  if (immediate_ && answer.after_us == 0) {
    put_in_box(std::move(mail));
  } else {
    post(now_us_ + answer.after_us, std::move(mail));
  }
}

void Simulator::perform(Node from, Life* life) {
  if (options_.canary != Canary::none) spoil(options_.canary, canary_countdown_, effects_);
  for (Effect& effect : effects_.list()) {
    if (auto* message = std::get_if<Send>(&effect)) {
      send(*message, from);
    } else if (const auto* timer = std::get_if<SetTimer>(&effect)) {
      Mail mail{What::event, from, {}, 0, Timer{timer->kind, timer->key}};
      if (life != nullptr) mail.incarnation = life->incarnation;
      post(std::max(now_us_, timer->due_us), std::move(mail));
    } else if (auto* record = std::get_if<Record>(&effect)) {
      take_record(*record, from, life);
    } else if (const auto* emitted = std::get_if<Emit>(&effect)) {
      invariants_.tokens(outcomes_.find(emitted->request), *emitted);
      for (const TokenRow& row : emitted->rows)
        hash(static_cast<std::uint64_t>(row.token));
    } else if (const auto* finish = std::get_if<Finish>(&effect)) {
      keep(from, life, *finish);
      take_finish(*finish);
    } else if (const auto* stuck = std::get_if<Stuck>(&effect)) {
      Outcome* outcome = outcomes_.find(stuck->request);
      if (outcome != nullptr && outcome->stuck++ == 0) outcome->waits_for = stuck->waits_for;
    } else if (auto* observed = std::get_if<Observed>(&effect)) {
      keep(from, life, std::move(*observed));
    } else if (auto* milestone = std::get_if<Milestone>(&effect)) {
      keep(from, life, std::move(*milestone));
    } else if (auto* change = std::get_if<RankChange>(&effect)) {
      keep(from, life, std::move(*change));
    } else if (life != nullptr) {
      perform_rank(effect, from, *life);
    } else {
      invariants_.fail("an effect that only a rank can perform");
    }
  }
  effects_.clear();
}

void Simulator::perform_rank(Effect& effect, Node from, Life& life) {
  if (const auto* step = std::get_if<RunStep>(&effect)) {
    answer(life.rank.run(*step, now_us_), from, life.incarnation);
  } else if (const auto* wanted = std::get_if<ExportSequence>(&effect)) {
    answer(life.rank.send_out(*wanted), from, life.incarnation);
  } else if (const auto* import = std::get_if<ImportSequence>(&effect)) {
    const RankRef source = import->pull.source;
    const Life* holder = find_life(node_of(Peer::rank, source.rank), source.incarnation);
    const bool reads = holder != nullptr && !holder->paused;
    answer(life.rank.bring_in(*import, reads ? &holder->rank : nullptr), from, life.incarnation);
  } else if (const auto* gone = std::get_if<Forget>(&effect)) {
    life.rank.forget(gone->ref);
  } else {
    invariants_.fail("an effect that a rank cannot perform");
  }
}

void Simulator::take_record(Record& record, Node from, const Life* life) {
  keep(from, life, record);
  invariants_.decision(record, now_us_);
  tally_.decision(record.kind, record.policy, record.reason);
  hash(static_cast<std::uint64_t>(record.reason) ^ raw(record.rank.rank) << 8U);
  if (record.kind == "prefill_router" && record.value > 0) {
    Outcome* outcome = outcomes_.find(record.ref.request);
    if (outcome != nullptr && outcome->assigned_us < 0) outcome->assigned_us = now_us_;
  }
  if (options_.keep_records) records_.push_back({now_us_, std::move(record)});
}

void Simulator::take_finish(const Finish& finish) {
  Outcome* outcome = outcomes_.find(finish.request);
  invariants_.ending(outcome, finish, now_us_);
  if (outcome != nullptr && outcome->endings.size() == 1) ++ended_;
}

// -- after an event ------------------------------------------------------------------------------

void Simulator::account(Place& place) {
  const RankCounts* counts = place.life == nullptr ? nullptr : &place.life->rank.stage().counts();
  const std::int64_t held = counts == nullptr ? 0 : counts->kv_blocks_reserved;
  const std::int64_t sequences = counts == nullptr ? 0 : place.life->rank.stage().sequences();
  tally_.hold(held - place.blocks_held);
  sequences_ += sequences - place.sequences;
  place.blocks_held = held;
  place.sequences = sequences;
}

void Simulator::look(Node node) {
  if (node >= kFirstRank) {
    Place& place = places_[node - kFirstRank];
    account(place);
    if (place.life != nullptr) {
      const RankOptions& made = options_.ranks[node - kFirstRank];
      invariants_.rank(place.life->rank, made.kv_blocks, made.slots);
      if (events_ % options_.walk_every == 0) invariants_.walk(place.life->rank);
    }
  }
  invariants_.stages(driver_->counts(), prefill_->counts(), decode_->counts(), arrived_);
  invariants_.work(prefill_->counts().waiting, sequences_, live_ranks_, faults_active_ > 0,
                   now_us_);
  if (!world_.problem.empty()) invariants_.fail("accounts: " + world_.problem);
}

bool Simulator::run(std::int64_t limit_us, std::int64_t settle_us) {
  std::int64_t until_us = limit_us;
  bool ended = false;
  while (invariants_.problem().empty()) {
    if (turns_.empty() && (queue_.empty() || queue_.next_us() > until_us)) break;
    step();
    if (!ended && all_ended()) {
      ended = true;
      until_us = now_us_ + settle_us;
    }
  }
  return ended && invariants_.problem().empty();
}

std::string Simulator::problem() const {
  if (invariants_.problem().empty()) return {};
  return "at " + std::to_string(now_us_) + " us, event " + std::to_string(events_) + ": " +
         invariants_.problem();
}

std::string Simulator::leftovers() const {
  constexpr std::size_t kShownMax = 8; // Of ranks there may be thousands.
  std::vector<std::string> held;
  const auto add = [&held](std::int64_t count, const std::string& who, const std::string& what) {
    if (count != 0) held.push_back(who + " " + std::to_string(count) + " " + what);
  };
  add(driver_->counts().live, "the driver has", "live requests");
  add(prefill_->requests(), "the chunker knows", "requests");
  const DecodeCounts& decode = decode_->counts();
  if (decode.waiting + decode.handing_off + decode.decoding != 0) {
    held.push_back("the balancer knows " + std::to_string(decode.waiting) + " that wait, " +
                   std::to_string(decode.handing_off) + " that move, " +
                   std::to_string(decode.decoding) + " that decode");
  }
  for (const Place& place : places_) {
    if (place.life == nullptr) continue;
    const SimRank& rank = place.life->rank;
    add(rank.stage().sequences(), place.options.name + " holds", "sequences");
    add(static_cast<std::int64_t>(rank.logs()), place.options.name + " keeps", "token logs");
  }
  std::string out;
  for (std::size_t i = 0; i < held.size() && i < kShownMax; ++i)
    out += (out.empty() ? "" : "; ") + held[i];
  if (held.size() > kShownMax) {
    out += "; and " + std::to_string(held.size() - kShownMax) + " more";
  }
  return out;
}

Report Simulator::report() const {
  Report report;
  report.seed = options_.seed;
  add_outcomes(report, outcomes_.all(), options_.targets);
  add_tally(report, tally_);
  const DecodeCounts& decode = decode_->counts();
  report.preempted = driver_->counts().preempted;
  report.handoffs = decode.transfers;
  report.handoffs_retried = decode.retried;
  report.in_place = decode.in_place;
  report.refused = prefill_->counts().refused;
  report.stale_dropped =
      driver_->counts().stale_dropped + prefill_->counts().stale_dropped + decode.stale_dropped;
  report.invalid_decisions = driver_->counts().invalid_decisions +
                             prefill_->counts().invalid_decisions + decode.invalid_decisions;
  for (const Place& place : places_) {
    if (place.life == nullptr) continue;
    report.stale_dropped += place.life->rank.stage().counts().stale_dropped;
    report.invalid_decisions += place.life->rank.stage().counts().invalid_decisions;
  }
  report.events = events_;
  report.messages = messages_;
  report.messages_lost = network_.lost();
  report.faults = static_cast<std::int64_t>(options_.faults.size());
  report.trace_hash = trace_hash_;
  return report;
}

} // namespace troupe::sim
