// The published placement, improved: no twins, exchanges between GPUs, a search over copy counts
// where that is small.

#pragma once

#include "schedulers/policy/expert_placement.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::sched {

struct EplbRefinedOptions {
  /// Exchanges tried per node and candidate. Unit: exchanges. Default 256. Range 0 to 65536.
  /// Hot: yes.
  std::int64_t exchanges_max = 256;
  /// Copy counts are enumerated when there are at most so many ways to spread the spare slots.
  /// Unit: ways. Default 20000. Range 0 to 10^6. Hot: yes.
  std::int64_t ways_max = 20'000;
};

/// Never above the published placement's highest load unless that one has twins: two copies of one
/// expert on a GPU, which this one never makes while there are no more copies than GPUs. GPUs keep
/// their names and experts their slots where that saves moves.
///
/// Source: policies.md section 4.3.
class EplbRefinedPlacement final : public ExpertPlacement {
public:
  explicit EplbRefinedPlacement(const EplbRefinedOptions& options) : options_(options) {}

  Decision<ExpertLayout> plan(const ExpertQuery& query, const PolicyContext& ctx) noexcept override;

private:
  EplbRefinedOptions options_;
};

/// [slots] the improved placement of one layer, not yet matched to a current map.
std::vector<std::int32_t> refined_layer(const ExpertTopology& topology,
                                        std::span<const std::int64_t> loads,
                                        const EplbRefinedOptions& options);

} // namespace troupe::sched
