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

} // namespace

void perform(caf::event_based_actor& self, const Peers& peers, const LedgerDesk& desk,
             ShellCounters& counters, TimerQueue& timers, sched::Effects& effects,
             std::int64_t now_us, const std::function<void(sched::Effect&)>& other) {
  for (sched::Effect& effect : effects.list()) {
    if (auto* send = std::get_if<sched::Send>(&effect)) {
      const caf::actor to = address(peers, *send);
      if (!to) continue;
      ++counters.messages;
      std::visit([&](auto& message) { self.send(to, std::move(message)); }, send->message);
    } else if (const auto* timer = std::get_if<sched::SetTimer>(&effect)) {
      timers.set(*timer);
    } else if (auto* record = std::get_if<sched::Record>(&effect)) {
      ++counters.decisions;
      if (desk.ledger != nullptr) desk.ledger->append(desk.stage, std::move(*record), now_us);
    } else if (auto* observed = std::get_if<sched::Observed>(&effect)) {
      if (desk.ledger != nullptr) desk.ledger->append(desk.stage, std::move(*observed), now_us);
    } else if (auto* milestone = std::get_if<sched::Milestone>(&effect)) {
      if (desk.ledger != nullptr) desk.ledger->append(desk.stage, std::move(*milestone), now_us);
    } else if (const auto* change = std::get_if<sched::RankChange>(&effect)) {
      if (desk.ledger != nullptr) desk.ledger->append(desk.stage, *change, now_us);
    } else {
      const auto* finish = std::get_if<sched::Finish>(&effect);
      if (finish != nullptr && desk.ledger != nullptr)
        desk.ledger->append(desk.stage, *finish, now_us);
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
