// What a rank does.

#pragma once

#include <cstdint>

namespace troupe::sched {

enum class Role : std::uint8_t { prefill, decode, both };

constexpr bool prefills(Role role) noexcept { return role != Role::decode; }
constexpr bool decodes(Role role) noexcept { return role != Role::prefill; }
constexpr const char* role_name(Role role) noexcept {
  return role == Role::prefill ? "prefill" : role == Role::decode ? "decode" : "both";
}

} // namespace troupe::sched
