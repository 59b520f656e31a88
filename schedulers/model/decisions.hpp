// What policies answer: ids, indices and counts, never tokens or pointers.
//
// Indices point into the span of candidates that the policy was asked with.

#pragma once

#include "schedulers/core/ids.hpp"

#include <cstdint>
#include <vector>

namespace troupe::sched {

enum class Admission : std::uint8_t { admit, reject };

/// Queue order: a permutation of the waiting requests, next one first.
struct Order {
  std::vector<std::uint32_t> positions;
  bool operator==(const Order&) const = default;
};

/// A chosen rank, with one score per rank of the question when the policy scores at all.
struct Placement {
  RankId rank{};
  std::vector<std::int64_t> scores; ///< [ranks] or empty; lower is better.
  bool operator==(const Placement&) const = default;
};

/// Tokens of one candidate in a step.
struct Share {
  std::uint32_t candidate = 0;
  std::int64_t tokens = 0; ///< >= 1.
  bool operator==(const Share&) const = default;
};

/// Packed slices of one rank's next step, in order.
struct Slices {
  std::vector<Share> shares;
  bool operator==(const Slices&) const = default;
};

/// How a finished prefill moves. One way exists: all of it, read by the target.
enum class HandoffMode : std::uint8_t { whole };

struct HandoffPlan {
  HandoffMode mode = HandoffMode::whole;
  bool operator==(const HandoffPlan&) const = default;
};

/// What runs together in one engine step.
struct StepDecision {
  std::vector<std::uint32_t> decodes; ///< Sequences that get one token each.
  std::vector<Share> slices;          ///< Of the offered slices, possibly shorter.
  bool operator==(const StepDecision&) const = default;
};

} // namespace troupe::sched
