// The expert loads of policies.md section 4.1.

#pragma once

#include <cstdint>
#include <vector>

namespace troupe::sched::testing {

using Loads = std::vector<std::int64_t>;
using Map = std::vector<std::int32_t>;

/// Two layers of 12 experts: 16 slots, 4 groups, 2 nodes, 8 GPUs.
inline const Loads kExample0 = {90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86};
inline const Loads kExample1 = {20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27};
/// 16 slots on 8 GPUs.
inline const Loads kAdversarial = {600, 560, 120, 120, 20, 10, 10, 10};

} // namespace troupe::sched::testing
