#include "actors/app/text_worker.hpp"

#include "actors/messages.hpp"

namespace troupe::app {

caf::behavior text_worker(caf::stateful_actor<TextWorkerState>* self, TextWorkerConfig config) {
  const auto peers = config.peers;
  const auto counters = config.counters;
  PieceSink pieces;
  if (config.tell_pieces) {
    pieces = [self, peers](const char* kind, const std::string& text) {
      self->send(peers->listener, actors::Piece{kind, text});
    };
  }
  self->state.desk = std::make_unique<TextDesk>(std::move(config.options), std::move(pieces));
  actors::drop_unexpected(*self, counters);
  const auto tell_driver = [self, peers, counters](auto message) {
    ++counters->messages;
    self->send(peers->driver, std::move(message));
  };
  return {
      [=](const actors::Render& m) {
        TextDesk::Outcome outcome = self->state.desk->render(m.line);
        if (outcome.answer) {
          tell_driver(std::move(*outcome.answer));
        } else {
          tell_driver(actors::Rendered{m.line.line, std::move(outcome.choices)});
        }
      },
      [=](const actors::Detokenise& m) {
        if (self->state.desk->detokenise(m.request, m.rows))
          tell_driver(actors::StopFound{m.request});
      },
      [=](const actors::Complete& m) {
        auto answer = self->state.desk->complete(m);
        if (answer) tell_driver(std::move(*answer));
      },
      [=](const actors::DropLine& m) { self->state.desk->drop(m.line); },
      [=](const actors::Stop&) { self->quit(); },
  };
}

} // namespace troupe::app
