// Messages of a policy swap between the policy manager and the stages.
//
// Two phases: every stage builds the set and says so, then every stage switches at its next event.
// A set goes live on all of them or on none. Source: contracts.md section 7.

#pragma once

#include "schedulers/core/ids.hpp"
#include "schedulers/registry/policy_set.hpp"

#include <compare>
#include <cstdint>
#include <string>

namespace troupe::sched {

/// Who a stage is. A rank is one stage in each of its lives.
enum class StageKind : std::uint8_t { driver, prefill, decode, rank, experts };

struct StageRef {
  StageKind kind = StageKind::driver;
  RankRef rank; ///< Of StageKind::rank, else zero.
  auto operator<=>(const StageRef&) const = default;
};

/// "driver", "prefill", "decode", "experts", "rank 3".
std::string stage_text(const StageRef& stage);

/// manager → stage: build this set and keep it beside the live one.
struct SwapPrepare {
  PolicySet set;                           ///< With its epoch.
  std::int64_t drop_after_us = 10'000'000; ///< Without a commit for so long, it is given up.
  bool is_live = false; ///< Everybody else decides by it already: so do you, from here on.
};

/// stage → manager: built, checked on what was asked lately, and kept; or why not.
struct Prepared {
  StageRef stage;
  PolicyEpoch epoch{};
  bool ok = false;
  std::string reason; ///< When not ok: kind, policy and what it did.
};

/// manager → stage: decide by the prepared set from your next event on. Repeated until answered.
struct SwapCommit {
  PolicyEpoch epoch{};
};

/// stage → manager: `epoch` is live here.
struct Committed {
  StageRef stage;
  PolicyEpoch epoch{};
};

/// manager → stage: forget the prepared set.
struct SwapAbort {
  PolicyEpoch epoch{};
};

/// stage → manager: this epoch is live here; send what I lack.
struct SetRequest {
  StageRef stage;
  PolicyEpoch epoch{};
};

/// stage → manager: a policy of the live set failed and the default decided in its place.
struct PolicyFault {
  StageRef stage;
  PolicyEpoch epoch{};
  std::string kind;   ///< "" = of the whole set, which this stage cannot build.
  std::string policy; ///< With kind "" the set's name, or "" when it was said already.
  std::string what;   ///< Which rule was broken, or how the call failed.
};

} // namespace troupe::sched
