#include "actors/effects_runner.hpp"

#include "actors/messages.hpp"
#include "actors/shell.hpp"

#include <caf/scheduled_actor.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <variant>

namespace troupe::actors {

namespace {

caf::actor address(const Peers& peers, const sched::Send& send) {
  switch (send.to) {
  case sched::Peer::driver:
    return peers.driver;
  case sched::Peer::chunker:
    return peers.chunker;
  case sched::Peer::balancer:
    return peers.balancer;
  case sched::Peer::manager:
    return peers.manager;
  case sched::Peer::experts:
    return peers.experts;
  case sched::Peer::rank:
    break;
  }
  return peers.ranks.find(send.rank);
}

/// What the ledger keeps is told before anything is performed: what comes of an entry stands after
/// it, and all entries of an event are there when performing it ends the actor.
void tell(const LedgerDesk& desk, ShellCounters& counters, sched::Effects& effects,
          std::int64_t now_us) {
  for (sched::Effect& effect : effects.list()) {
    if (std::holds_alternative<sched::Record>(effect)) ++counters.decisions;
    if (desk.ledger == nullptr) continue;
    if (auto* record = std::get_if<sched::Record>(&effect))
      desk.ledger->append(desk.stage, std::move(*record), now_us);
    else if (auto* observed = std::get_if<sched::Observed>(&effect))
      desk.ledger->append(desk.stage, std::move(*observed), now_us);
    else if (auto* milestone = std::get_if<sched::Milestone>(&effect))
      desk.ledger->append(desk.stage, std::move(*milestone), now_us);
    else if (const auto* change = std::get_if<sched::RankChange>(&effect))
      desk.ledger->append(desk.stage, *change, now_us);
    else if (const auto* finish = std::get_if<sched::Finish>(&effect))
      desk.ledger->append(desk.stage, *finish, now_us);
  }
}

/// Whether the ledger alone hears of it.
bool is_for_ledger(const sched::Effect& effect) {
  return std::holds_alternative<sched::Record>(effect) ||
         std::holds_alternative<sched::Observed>(effect) ||
         std::holds_alternative<sched::Milestone>(effect) ||
         std::holds_alternative<sched::RankChange>(effect);
}

} // namespace

void perform(caf::event_based_actor& self, const Peers& peers, const LedgerDesk& desk,
             ShellCounters& counters, TimerQueue& timers, sched::Effects& effects,
             std::int64_t now_us, const std::function<void(sched::Effect&)>& other) {
  tell(desk, counters, effects, now_us);
  for (sched::Effect& effect : effects.list()) {
    if (auto* send = std::get_if<sched::Send>(&effect)) {
      const caf::actor to = address(peers, *send);
      if (!to) continue;
      ++counters.messages;
      std::visit([&](auto& message) { self.send(to, std::move(message)); }, send->message);
    } else if (const auto* timer = std::get_if<sched::SetTimer>(&effect)) {
      timers.set(*timer);
    } else if (!is_for_ledger(effect)) {
      other(effect);
    }
  }
}

void arm(caf::event_based_actor& self, TimerQueue& timers) {
  const auto due_us = timers.next_wake_us();
  if (!due_us) return;
  const auto delay = std::chrono::microseconds{std::max<std::int64_t>(0, *due_us - now_us(self))};
  self.delayed_send(&self, delay, WakeUp{*due_us});
}

void drop_unexpected(caf::scheduled_actor& self, std::shared_ptr<ShellCounters> counters) {
  self.set_default_handler([counters](caf::scheduled_actor*, caf::message_view& view) {
    ++counters->unexpected;
    spdlog::warn("dropped a message that no handler takes: {}",
                 caf::to_string(view.move_content_to_message()));
    return caf::result<caf::message>{caf::sec::unexpected_message};
  });
  self.set_exception_handler([](std::exception_ptr& thrown) -> caf::error {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      return caf::make_error(caf::sec::runtime_error, error.what());
    } catch (...) {
      return caf::make_error(caf::sec::runtime_error, "an exception of unknown type");
    }
  });
}

} // namespace troupe::actors
