// Short digests of effects: whether a stage that is asked again wants the same done.

#pragma once

#include "schedulers/stage/effects.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::sched {

/// Whether the ledger keeps this effect whole; its digest then says its kind only.
bool is_kept(const Effect& effect) noexcept;

/// 32 bits over all fields of an effect. Pure; stable across compilers.
std::uint32_t digest_of(const Effect& effect);

std::vector<std::uint32_t> digests_of(const Effects& effects);

/// "send assign", "set_timer", "run_step".
std::string effect_name(const Effect& effect);

} // namespace troupe::sched
