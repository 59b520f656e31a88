#include "schedulers/sim/faults.hpp"

namespace troupe::sim {

std::string_view fault_name(FaultKind kind) noexcept {
  switch (kind) {
  case FaultKind::kill:
    return "kill";
  case FaultKind::pause:
    return "pause";
  case FaultKind::stick:
    return "stick";
  case FaultKind::slow:
    return "slow";
  case FaultKind::lose:
    return "lose";
  case FaultKind::lag:
    return "lag";
  case FaultKind::cut:
    return "cut";
  case FaultKind::full:
    return "full";
  }
  return "unknown";
}

std::vector<RankId> ranks_named(const std::string& name,
                                const std::vector<sched::RankOptions>& ranks) {
  std::vector<RankId> found;
  for (const sched::RankOptions& rank : ranks) {
    if (name.empty() || rank.name == name || sched::role_name(rank.role) == name) {
      found.push_back(rank.rank.rank);
    }
  }
  return found;
}

std::vector<Fault> draw_faults(const std::vector<FaultSpec>& specs,
                               const std::vector<sched::RankOptions>& ranks, Rng& rng) {
  std::vector<Fault> faults;
  for (const FaultSpec& spec : specs) {
    const std::vector<RankId> meant = ranks_named(spec.rank, ranks);
    const std::int64_t count = meant.empty() ? 0 : draw_from(spec.count, rng);
    for (std::int64_t i = 0; i < count; ++i) {
      Fault fault;
      fault.kind = spec.kind;
      fault.rank = meant.size() == 1 ? meant.front() : meant[rng.below(meant.size())];
      fault.at_us = draw_from(spec.at_us, rng);
      fault.for_us = draw_from(spec.for_us, rng);
      fault.noticed_us = draw_from(spec.noticed_us, rng);
      fault.amount = draw_from(spec.amount, rng);
      faults.push_back(fault);
    }
  }
  return faults;
}

} // namespace troupe::sim
