// What the ledger keeps, as the stages said it: the joint of its writer, replay and explain.

#pragma once

#include "schedulers/stage/effects.hpp"
#include "schedulers/stage/event.hpp"
#include "schedulers/stage/manager_stage.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

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

/// Options of a stage, in the order of StageKind.
using StageOptions =
    std::variant<DriverOptions, PrefillOptions, DecodeOptions, RankOptions, ExpertOptions>;

/// A life of a stage begins: all that it is built from. Only in a ledger of level `events`.
struct StageBegan {
  StageOptions options;
  PolicySet policies; ///< With its epoch.
};

/// A stage took an event at the time of the entry; what it said then follows, before its next one.
/// Only in a ledger of level `events`.
struct StageTook {
  std::uint64_t number = 0;           ///< In this life, from 1.
  std::shared_ptr<const Event> event; ///< Null: it was started.
  std::vector<std::uint32_t> effects; ///< Digest of each effect, in order; see effect_digest.hpp.
};

/// One entry. Entries of one stage are in the order in which it said them.
struct LedgerEntry {
  std::uint64_t number = 0; ///< Ascending in one ledger, without gaps unless entries were lost.
  std::int64_t at_us = 0;   ///< Clock of the stage's process.
  StageRef stage;
  std::variant<Record, Observed, Milestone, Finish, SetLive, RequestNamed, RankChange, StageBegan,
               StageTook>
      what;
};

} // namespace troupe::sched
