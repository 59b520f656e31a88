// Lives of simulated ranks: how they begin, are disturbed, end and are given up.

#include "schedulers/sim/simulator.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace troupe::sim {

using namespace sched;

namespace {

constexpr Node kFirstRank = 3;

} // namespace

void Simulator::control(const Mail& mail) {
  Place& place = places_[mail.to - kFirstRank];
  switch (mail.what) {
  case What::born:
    if (place.life == nullptr) start_life(place);
    break;
  case What::fault_begins:
    fault_begins(mail.number);
    break;
  case What::fault_ends:
    fault_ends(mail.number);
    break;
  case What::given_up:
    if (place.life != nullptr && place.life->incarnation == mail.incarnation) give_up(place);
    break;
  default:
    break;
  }
}

void Simulator::start_life(Place& place) {
  place.incarnation = next(place.incarnation);
  RankOptions options = place.options;
  options.rank.incarnation = place.incarnation;
  if (options_.canary == Canary::leak) ++options.kv_blocks;
  place.life = std::make_unique<Life>(
      Life{SimRank(options, policies_, registry_, world_), place.incarnation, false, false, {}});
  live_ranks_ += prefills(options.role) ? 1 : 0;
  place.life->rank.stage().start(now_us_, effects_);
  perform(node_of(Peer::rank, options.rank.rank), place.life.get());
}

void Simulator::end_life(Place& place) {
  place.life.reset();
  live_ranks_ -= prefills(place.options.role) ? 1 : 0;
  account(place);
}

void Simulator::tell_gone(RankRef rank, std::int64_t after_us, bool comes_back) {
  for (const Peer to : {Peer::driver, Peer::chunker, Peer::balancer}) {
    post(now_us_ + after_us + network_.delay_us(world_.rng),
         {What::event, node_of(to, {}), {}, 0, RankDown{rank, ErrorCode::rank_lost, comes_back}});
  }
}

/// As a supervisor does: a role of which no rank lives or will come back ends all requests.
void Simulator::tell_when_no_rank_is_left(std::int64_t after_us) {
  for (const Role role : {Role::prefill, Role::decode}) {
    const bool left = std::any_of(places_.begin(), places_.end(), [&](const Place& place) {
      const Role has = place.options.role;
      return !place.for_good && (role == Role::prefill ? prefills(has) : decodes(has));
    });
    if (left) continue;
    NoRankLeft none;
    none.role = role;
    none.detail = "every rank of the role is gone for good";
    post(now_us_ + after_us + network_.delay_us(world_.rng),
         {What::event, node_of(Peer::driver, {}), {}, 0, std::move(none)});
  }
}

void Simulator::give_up(Place& place) {
  tell_gone({place.options.rank.rank, place.incarnation}, 0, true);
  place.given_up.push_back(std::move(place.life));
  end_life(place);
  start_life(place);
}

void Simulator::wake(Node node, Life& life) {
  life.paused = false;
  std::deque<Mail> held = std::exchange(life.held, {});
  for (Mail& mail : held) {
    ++events_;
    mail.to = node;
    handle_rank(mail);
  }
}

bool Simulator::refuse_full(const Mail& mail, const Life& life) {
  Refused no;
  no.reason = ErrorCode::no_room;
  Send answer;
  if (const auto* assign = std::get_if<Assign>(&mail.event)) {
    if (life.rank.knows(assign->ref)) return false;
    no.ref = assign->ref;
    no.rank = assign->rank;
    answer.to = Peer::chunker;
  } else if (const auto* reserve = std::get_if<Reserve>(&mail.event)) {
    no.ref = reserve->ref;
    no.rank = reserve->rank;
    no.handoff = reserve->handoff;
    answer.to = Peer::balancer;
  } else {
    return false;
  }
  answer.message = no;
  send(answer, mail.to);
  return true;
}

void Simulator::fault_begins(std::size_t number) {
  const Fault& fault = options_.faults[number];
  const Node node = node_of(Peer::rank, fault.rank);
  Place& place = places_[raw(fault.rank)];
  ++faults_active_;
  if (fault.for_us >= 0) {
    post(now_us_ + fault.for_us, {What::fault_ends, node, place.incarnation, number, Timer{}});
  }
  if (place.life == nullptr && fault.kind != FaultKind::cut && fault.kind != FaultKind::lose &&
      fault.kind != FaultKind::lag) {
    return; // It is down already.
  }
  switch (fault.kind) {
  case FaultKind::kill:
    tell_gone({fault.rank, place.incarnation}, std::max<std::int64_t>(0, fault.noticed_us),
              fault.for_us >= 0);
    end_life(place);
    if (fault.for_us < 0) {
      place.for_good = true;
      tell_when_no_rank_is_left(std::max<std::int64_t>(0, fault.noticed_us));
    }
    break;
  case FaultKind::pause:
    place.life->paused = true;
    break;
  case FaultKind::stick:
    place.life->rank.stick();
    break;
  case FaultKind::slow:
    place.life->rank.slow_down(fault.amount);
    break;
  case FaultKind::lose:
    network_.lose(node, fault.amount);
    break;
  case FaultKind::lag:
    network_.slow_down(node, fault.amount);
    break;
  case FaultKind::cut:
    network_.cut(node, fault.for_us < 0 ? kNever : now_us_ + fault.for_us);
    break;
  case FaultKind::full:
    place.life->full = true;
    break;
  }
  const bool given_up = fault.kind == FaultKind::pause || fault.kind == FaultKind::stick;
  if (given_up && fault.noticed_us >= 0) {
    post(now_us_ + fault.noticed_us, {What::given_up, node, place.incarnation, number, Timer{}});
  }
}

void Simulator::fault_ends(std::size_t number) {
  const Fault& fault = options_.faults[number];
  const Node node = node_of(Peer::rank, fault.rank);
  Place& place = places_[raw(fault.rank)];
  --faults_active_;
  switch (fault.kind) {
  case FaultKind::kill:
    if (place.life == nullptr) start_life(place);
    break;
  case FaultKind::pause: {
    std::vector<Life*> all;
    if (place.life != nullptr) all.push_back(place.life.get());
    for (const auto& life : place.given_up)
      all.push_back(life.get());
    for (Life* life : all) {
      if (life->paused) wake(node, *life);
    }
    break;
  }
  case FaultKind::stick:
    break; // What was asked of the engine is lost; only a new life helps.
  case FaultKind::slow:
    if (place.life != nullptr) place.life->rank.slow_down(1000);
    break;
  case FaultKind::lose:
    network_.lose(node, 0);
    break;
  case FaultKind::lag:
    network_.slow_down(node, 0);
    break;
  case FaultKind::cut:
    break; // The network knows the end.
  case FaultKind::full:
    if (place.life != nullptr) place.life->full = false;
    break;
  }
}

} // namespace troupe::sim
