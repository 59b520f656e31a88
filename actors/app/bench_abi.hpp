// The rules of the built-in router and balancer as a library would write them, for benches of what
// the ABI of loadable policies and its lane cost.

#pragma once

#include "schedulers/plugin/plugin_policy.hpp"
#include "schedulers/policy/decode_balancer.hpp"
#include "schedulers/policy/prefill_router.hpp"

#include <memory>

namespace troupe::app {

/// least_work behind the ABI; its calls are made by what `runner` makes.
std::unique_ptr<sched::PrefillRouter> router_behind_abi(const sched::RunnerMaker& runner);

/// count_and_kv without headroom.
std::unique_ptr<sched::DecodeBalancer> balancer_behind_abi(const sched::RunnerMaker& runner);

} // namespace troupe::app
