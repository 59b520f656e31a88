// The desk of a running system: questions to the policy manager's actor, facts it published.

#pragma once

#include "actors/app/control_desk.hpp"
#include "actors/caf_compat.hpp"

#include <functional>
#include <memory>
#include <string>

namespace troupe::app {

/// What a desk is made of.
struct ManagerDeskParts {
  caf::actor manager;
  std::shared_ptr<const actors::ManagerFacts> facts; ///< Never null.
  // Called from any thread.
  std::function<std::string(const actors::ManagerView&)> top;
  std::function<LedgerReply()> write_ledger;
};

/// A desk, and the actor that stands behind it: it hears the answers, and ends with Stop. Answers
/// that have not come by then are broken.
struct OpenedDesk {
  std::shared_ptr<ControlDesk> desk;
  caf::actor asker;
};

OpenedDesk open_desk(caf::actor_system& system, ManagerDeskParts parts);

} // namespace troupe::app
