// What the ledger keeps, as the stages said it: the joint of its writer, replay and explain.

#pragma once

#include "schedulers/stage/effects.hpp"
#include "schedulers/stage/manager_stage.hpp"

#include <cstdint>
#include <string>
#include <variant>

namespace troupe::sched {

/// A set is live from here on, on every stage that says its epoch.
struct SetLive {
  PolicySet set;
  SwapCause how = SwapCause::start;
  std::string reason;
};

/// Names a request for people; once, before everything else about it.
struct RequestNamed {
  RequestId request{};
  std::string custom_id;
};

/// One entry. Entries of one stage are in the order in which it said them.
struct LedgerEntry {
  std::uint64_t number = 0; ///< Ascending in one ledger, without gaps unless entries were lost.
  std::int64_t at_us = 0;   ///< Clock of the stage's process.
  StageRef stage;
  std::variant<Record, Observed, Milestone, Finish, SetLive, RequestNamed, RankChange> what;
};

} // namespace troupe::sched
