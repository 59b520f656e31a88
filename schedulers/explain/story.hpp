// One request's story as a value: where its time went, and why, by the records of a ledger.

#pragma once

#include "schedulers/stage/effects.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::sched {

/// A stretch of a request's life in which it waited for one thing, or did one thing. Times of a
/// story count from the request's arrival.
struct StorySpan {
  std::int64_t from_us = 0;
  std::int64_t to_us = 0;
  std::string what;               ///< "waiting in the queue".
  std::vector<std::string> facts; ///< Why: one statement each, without a full stop; never empty.
  std::optional<Phase> phase;     ///< None where the ledger has no entry of it.
  Attempt attempt{};
  RankRef rank; ///< Where; zero: nowhere yet.

  /// All facts as one text.
  std::string why() const;
};

/// A rank that could have been chosen.
struct StoryCandidate {
  RankRef rank;
  std::string name;
  std::optional<std::int64_t> score; ///< None where the policy gives no scores.
  bool feasible = false;
  std::string lacks; ///< Why it was not feasible; "" when it was.
};

/// A decision about this one request.
struct StoryDecision {
  std::int64_t at_us = 0;
  std::string kind;
  std::string policy;
  PolicyEpoch epoch{};
  Attempt attempt{};
  std::string chosen; ///< A rank's name, "admit", "reject", "start", "wait", "none".
  Reason reason{};
  std::int64_t view_age_us = 0; ///< Of the oldest report that was used.
  bool canary = false;
  std::vector<StoryCandidate> candidates;
};

struct Story {
  RequestId request{};
  std::string custom_id;       ///< "" = the ledger does not name it.
  std::int64_t arrival_us = 0; ///< Clock of the process that kept the ledger.
  /// Until its end, until it was asked for, or until the last entry of the ledger.
  std::int64_t latency_us = 0;
  bool ended = false;
  bool runs = false;            ///< Not ended, in a job that runs: the last span goes on.
  Finish finish;                ///< When it ended.
  std::int64_t tries = 0;       ///< Ways through the pipeline: attempts and preemptions.
  std::vector<StorySpan> spans; ///< From 0 to latency_us without gap or overlap; none is empty.
  std::vector<StoryDecision> decisions;
  std::int64_t missing = 0; ///< Entries of its time that the ledger lost.

  /// Of its tries, those that a preemption made necessary.
  std::int64_t preemptions() const noexcept;
};

} // namespace troupe::sched
