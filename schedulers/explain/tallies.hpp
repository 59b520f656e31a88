// What happened between two entries of a life: orders, slices and steps, counted.

#pragma once

#include "schedulers/explain/life.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::sched {

/// Decisions of one policy, under as many epochs as it was live in.
struct PolicyShare {
  const Record* first = nullptr; ///< Its words hold for all of them.
  std::set<PolicyEpoch> epochs;
};

/// Orders of queue policies that the request was in.
struct OrderTally {
  std::int64_t orders = 0;
  std::int64_t ahead_first = 0;
  std::int64_t ahead_last = 0;
  struct Orders : PolicyShare {
    std::int64_t orders = 0;
  };
  std::vector<Orders> by; ///< One a policy and reason, the first one first.
};

/// @param rank  whose next step was ordered; none: the queue of those that wait for a rank
OrderTally tally_orders(const Life& life, const Leg& leg, std::optional<RankRef> rank);

/// Slices that were packed for the rank of a leg.
struct SliceTally {
  std::int64_t packs = 0; ///< Steps of it that were packed.
  struct Packed : PolicyShare {
    std::int64_t slices = 0;
    std::int64_t tokens = 0;
  };
  std::vector<Packed> own; ///< One a policy, the first one first.
  Packed others;           ///< Of any policy.
  std::int64_t other_requests = 0;
};

SliceTally tally_slices(const Life& life, const Leg& leg);

/// Decisions of a kind about other requests in a leg.
struct OthersTally {
  std::int64_t placed = 0;
  std::int64_t left = 0; ///< Without a rank.
};

OthersTally tally_others(const Life& life, const Leg& leg, std::string_view kind);

/// Steps that the rank of a leg began in it; of one that decodes, from its first step there on,
/// which may come before the balancer hears that it decodes.
struct StepTally {
  std::int64_t steps = 0;
  std::int64_t with_it = 0;
  std::int64_t own_tokens = 0; ///< Of the request, in those steps.
  std::int64_t beside_max = 0; ///< Other sequences that decoded in a step with it, at most.
};

StepTally tally_steps(const Life& life, const Leg& leg);

/// Requests that stood on `rank` when entry `place` of the life came, but for the request itself.
std::int64_t standing_on(const Life& life, std::size_t place, RankRef rank);

/// Finished prefills of requests that arrived no later and waited for a decode rank then.
std::int64_t finished_before(const Life& life, std::size_t place, std::int64_t arrival_us);

} // namespace troupe::sched
