#include "actors/effects_runner.hpp"

#include "actors/messages.hpp"
#include "actors/shell.hpp"

#include <caf/scheduled_actor.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <variant>

namespace troupe::actors {

namespace {

const caf::actor* address(const Peers& peers, const sched::Send& send) {
  switch (send.to) {
  case sched::Peer::driver:
    return &peers.driver;
  case sched::Peer::chunker:
    return &peers.chunker;
  case sched::Peer::balancer:
    return &peers.balancer;
  case sched::Peer::rank:
    break;
  }
  const auto found = peers.ranks.find(send.rank);
  return found == peers.ranks.end() ? nullptr : &found->second;
}

} // namespace

void perform(caf::event_based_actor& self, const Peers& peers, Ledger* ledger,
             ShellCounters& counters, sched::Effects& effects, std::int64_t now_us,
             const std::function<void(sched::Effect&)>& other) {
  for (sched::Effect& effect : effects.list()) {
    if (auto* send = std::get_if<sched::Send>(&effect)) {
      const caf::actor* to = address(peers, *send);
      if (to == nullptr || !*to) continue;
      ++counters.messages;
      std::visit([&](auto& message) { self.send(*to, std::move(message)); }, send->message);
    } else if (auto* timer = std::get_if<sched::SetTimer>(&effect)) {
      const auto delay =
          std::chrono::microseconds{std::max<std::int64_t>(0, timer->due_us - now_us)};
      self.delayed_send(&self, delay, sched::Timer{timer->kind, timer->key});
    } else if (auto* record = std::get_if<sched::Record>(&effect)) {
      ++counters.decisions;
      if (ledger != nullptr) ledger->append(*record, now_us);
    } else {
      other(effect);
    }
  }
}

void drop_unexpected(caf::scheduled_actor& self, std::shared_ptr<ShellCounters> counters) {
  self.set_default_handler([counters](caf::scheduled_actor*, caf::message_view& view) {
    ++counters->unexpected;
    spdlog::warn("dropped a message that no handler takes: {}",
                 caf::to_string(view.move_content_to_message()));
    return caf::result<caf::message>{caf::sec::unexpected_message};
  });
}

} // namespace troupe::actors
