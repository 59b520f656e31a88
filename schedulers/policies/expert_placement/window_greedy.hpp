// The placement of the released engine: from the loads of single steps, not their means.

#pragma once

#include "schedulers/policy/expert_placement.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::sched {

struct WindowGreedyOptions {
  /// The newest steps of the window that are looked at. Unit: steps. Default 100. Range 1 to 10000.
  /// Hot: yes.
  std::int64_t window_steps = 100;
};

/// Copies go where they lower the sum over steps of the highest load of a copy; each copy goes to
/// the GPU with room where the sum over steps of the highest GPU load stays lowest. Always global;
/// the current map is not looked at. It sees bursts and experts that are busy together. A layer
/// without steps counts as one step of its loads.
///
/// Source: policies.md section 4.1, last paragraph.
class WindowGreedyPlacement final : public ExpertPlacement {
public:
  explicit WindowGreedyPlacement(const WindowGreedyOptions& options) : options_(options) {}

  Decision<ExpertLayout> plan(const ExpertQuery& query, const PolicyContext& ctx) noexcept override;

private:
  WindowGreedyOptions options_;
};

/// [slots] placement for `steps` of [steps, experts]. @pre check_topology(); steps not empty
std::vector<std::int32_t> window_greedy_layer(const ExpertTopology& topology,
                                              std::span<const std::int64_t> steps);

/// The copy that row `row` of rank `rank` uses. @pre copies >= 1
constexpr std::int64_t copy_of_row(std::int64_t rank, std::int64_t row,
                                   std::int64_t copies) noexcept {
  return (rank + 23'333 * row) % copies;
}

} // namespace troupe::sched
