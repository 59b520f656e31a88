// What came out for each request of a run.

#pragma once

#include "schedulers/sim/workload.hpp"
#include "schedulers/stage/effects.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::sim {

struct Outcome {
  RequestPlan plan;
  bool arrived = false;
  std::vector<std::int32_t> tokens;
  std::vector<sched::Finish> endings; ///< One when all is well.
  std::int64_t stuck = 0;             ///< Reports of the watchdog.
  std::string waits_for;              ///< What the first of them said.
  std::int64_t assigned_us = -1;      ///< When a rank was first asked to take it.

  bool ended() const noexcept { return !endings.empty(); }
  ErrorCode code() const noexcept { return ended() ? endings.front().code : ErrorCode::ok; }
};

/// All requests of a run, ascending by id.
class Outcomes {
public:
  /// @pre ascending by request, each once
  explicit Outcomes(const std::vector<RequestPlan>& plans);

  /// Null when the run has no such request.
  Outcome* find(RequestId request);
  /// @pre the run has it
  const Outcome& at(RequestId request) const;

  const std::vector<Outcome>& all() const noexcept { return outcomes_; }
  std::vector<Outcome>& all() noexcept { return outcomes_; }

private:
  std::vector<Outcome> outcomes_;
};

} // namespace troupe::sim
