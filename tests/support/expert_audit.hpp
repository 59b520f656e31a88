// Follows the expert counts of a run from the engines' results to the manager's reports.

#pragma once

#include "actors/app/rank_maker.hpp"
#include "actors/shell.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::test {

/// Hand its wrap and tap to a run; what both saw is compared afterwards. Thread: any while it runs.
class ExpertAudit {
public:
  app::EngineWrap wrap();
  actors::StageTap tap();

  /// What reports and engines disagree about, in words; empty when each report holds exactly what
  /// the engine counted in its steps, and no step between two reports is left out.
  std::vector<std::string> faults() const;

  std::int64_t reports() const;
  std::int64_t steps() const;           ///< That reports cover.
  std::int64_t engine_steps() const;    ///< That engines ran.
  std::set<ExpertEpoch> epochs() const; ///< That steps ran under.
  std::int64_t plans_heard() const;     ///< By ranks.

  struct Step {
    ExpertEpoch epoch{};
    std::int64_t tokens = 0;
    std::vector<std::int32_t> counts;
  };
  using Life = std::map<std::uint64_t, Step>;

private:
  void note(const RankRef& rank, std::uint64_t step, Step counted);

  mutable std::mutex mutex_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Life> lives_; ///< (rank, incarnation).
  std::vector<sched::ExpertLoads> reports_;
  std::int64_t plans_heard_ = 0;

  friend class CountingEngine;
};

} // namespace troupe::test
