#include "schedulers/registry/policy_set.hpp"

#include "schedulers/core/rng.hpp"

namespace troupe::sched {

bool in_canary_share(std::uint64_t session_hash, std::int64_t permille) noexcept {
  // Not the hash itself: session_hash routing would then give the canary certain ranks only.
  constexpr std::uint64_t kSalt = 0xCA9A47;
  return static_cast<std::int64_t>(mix64(session_hash ^ kSalt) % 1000) < permille;
}

} // namespace troupe::sched
