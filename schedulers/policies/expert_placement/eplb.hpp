// The published expert placement, exactly: groups to nodes, copies by load, copies to GPUs.

#pragma once

#include "schedulers/policy/expert_placement.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::sched {

/// Takes no options and looks at no current map, so it moves whatever differs.
///
/// Where the published code stops with an assertion it goes on: slots that do not divide evenly
/// over the GPUs are allowed, and nodes that do not divide the GPUs are ignored.
///
/// Source: policies.md section 4.1; EPLB of DeepSeek.
class EplbPlacement final : public ExpertPlacement {
public:
  Decision<ExpertLayout> plan(const ExpertQuery& query, const PolicyContext& ctx) noexcept override;
};

/// Items into bins that hold `capacity[bin]` of them: heaviest first, each to the lightest bin with
/// room, ties to the lower item and the lower bin. With one item a bin, item i goes to bin i.
struct Packing {
  std::vector<std::int64_t> bin;  ///< [items]
  std::vector<std::int64_t> rank; ///< [items] order of arrival in the bin.
};
Packing pack(std::span<const std::int64_t> weights, std::span<const std::int64_t> capacity);

/// [slots] expert of each copy: all once, then one more of whoever carries most per copy, at most
/// `copies_max` of each as long as that can fill the slots.
std::vector<std::int32_t> replicate(std::span<const std::int64_t> weights, std::int64_t slots,
                                    std::int64_t copies_max);

/// Which experts go to each node: [nodes][experts of the node], in the order of the published code.
std::vector<std::vector<std::int32_t>> experts_by_node(const ExpertTopology& topology,
                                                       std::span<const std::int64_t> loads);

/// [slots] the published placement of one layer. @pre check_topology() and usable_loads()
std::vector<std::int32_t> eplb_layer(const ExpertTopology& topology,
                                     std::span<const std::int64_t> loads);

} // namespace troupe::sched
