// The text worker: shell of TextDesk, on a thread of its own.

#pragma once

#include "actors/app/text_desk.hpp"
#include "actors/shell.hpp"

#include <memory>

namespace troupe::app {

struct TextWorkerConfig {
  std::shared_ptr<const actors::Peers> peers;
  std::shared_ptr<actors::ShellCounters> counters;
  TextOptions options;
  bool tell_pieces = false; ///< Send Piece messages to the listener.
};

struct TextWorkerState {
  std::unique_ptr<TextDesk> desk;
};

/// Takes Render, Detokenise, Complete, DropLine from the driver.
caf::behavior text_worker(caf::stateful_actor<TextWorkerState>* self, TextWorkerConfig config);

} // namespace troupe::app
